#pragma once
// Memory traffic of kernels that are bound by it: reading ahead, and stores that leave the cache alone. A plain store
// to a line that is not cached reads that line first; a streaming store does not, which saves a third of a copy's
// traffic.

#include <algorithm>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace engine::kernels {

/// Results of at least this many bytes do not stay cached until they are read again: store them by stream_store.
inline constexpr int64_t kStreamBytes = int64_t{8} << 20;

/// Asks for the cache lines that stand about a page ahead of [p, p + count): rows are read one behind the other, and
/// the processor's own prefetching falls behind where several are read at once.
template <typename T>
inline void prefetch_ahead(const T* p, int64_t count) {
  constexpr int64_t kAhead = 4096 / sizeof(T), kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + i + kAhead);
}

/// Whether rows of that many elements, `count` elements in all, should be written by stream_store: they would not stay
/// cached, and each is made of whole cache lines.
template <typename T>
inline bool streams(const T* target, int64_t row, int64_t count) {
  const bool whole_lines = reinterpret_cast<uintptr_t>(target) % 64 == 0 && row * int64_t{sizeof(T)} % 64 == 0;
  return whole_lines && count * int64_t{sizeof(T)} >= kStreamBytes;
}

/// Copies count elements past the cache; `to` as streams() wants it. Call stream_fence() on the same thread before
/// another thread reads them.
template <typename T>
inline void stream_store(const T* from, T* to, int64_t count) {
#if defined(__AVX__)
  constexpr int64_t kStep = 32 / sizeof(T);
  for (int64_t i = 0; i < count; i += kStep) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), values);
  }
#elif defined(__SSE2__)
  constexpr int64_t kStep = 16 / sizeof(T);
  for (int64_t i = 0; i < count; i += kStep) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), values);
  }
#else
  std::copy_n(from, count, to);
#endif
}

/// Makes this thread's streaming stores visible before what it does next.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace engine::kernels
