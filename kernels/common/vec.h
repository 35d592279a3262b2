#pragma once
// FP32 vectors of the widest kind that the compiler was told about, through GCC's and clang's vector extensions.

#include <cstddef>
#include <cstdint>
#include <utility>

namespace engine::kernels {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

/// Whether the project's own products and convolutions pay: below eight lanes oneDNN, which chooses its instructions
/// at run time, is faster.
inline constexpr bool kWideVectors = kLanes >= 8;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef float UnalignedVector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const UnalignedVector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<UnalignedVector*>(to) = value; }

/// All lanes equal. The subtraction of zero is exact and vanishes, which the addition of zero does not for -0.
inline Vector splat(float value) { return value - Vector{}; }

namespace detail {

// One step of a transposition: swaps the off-diagonal blocks of 2 x 2 blocks of `kSize` lanes.
template <int kSize, std::size_t... kLane>
void swap_blocks(Vector& upper, Vector& lower, std::index_sequence<kLane...>) {
  constexpr auto kFlag = static_cast<std::size_t>(kSize), kAll = static_cast<std::size_t>(kLanes);
  const Vector first = __builtin_shufflevector(upper, lower, (kLane & kFlag ? kLane - kFlag + kAll : kLane)...);
  lower = __builtin_shufflevector(upper, lower, (kLane & kFlag ? kLane + kAll : kLane + kFlag)...);
  upper = first;
}

template <int kSize>
void transpose_blocks(Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kSize) == 0) swap_blocks<kSize>(rows[i], rows[i + kSize], std::make_index_sequence<kLanes>());
  }
  if constexpr (2 * kSize < kLanes) transpose_blocks<2 * kSize>(rows);
}

}  // namespace detail

/// Exchanges rows and lanes.
inline void transpose(Vector (&rows)[kLanes]) { detail::transpose_blocks<1>(rows); }

/// Copies count floats; fast for the some hundred floats of a picture's row, where a call of memcpy shows.
inline void copy_floats(const float* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count && count >= kLanes) return store(to + count - kLanes, load(from + count - kLanes));
  for (; i < count; ++i) to[i] = from[i];
}

inline void zero_floats(float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, Vector{});
  for (; i < count; ++i) to[i] = 0;
}

}  // namespace engine::kernels
