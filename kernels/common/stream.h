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
inline void prefetch_ahead(const float* p, int64_t count) {
  constexpr int64_t kAhead = 1024, kLine = 16;
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + i + kAhead);
}

/// Whether rows of that many floats, `count` floats in all, should be written by stream_store: they would not stay
/// cached, and each is made of whole cache lines.
inline bool streams(const float* target, int64_t row, int64_t count) {
  const bool whole_lines = reinterpret_cast<uintptr_t>(target) % 64 == 0 && row % 16 == 0;
  return whole_lines && count * int64_t{sizeof(float)} >= kStreamBytes;
}

/// Copies count floats past the cache; `to` as streams() wants it. Call stream_fence() on the same thread before
/// another thread reads them.
inline void stream_store(const float* from, float* to, int64_t count) {
#if defined(__AVX__)
  for (int64_t i = 0; i < count; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
#elif defined(__SSE2__)
  for (int64_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
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
