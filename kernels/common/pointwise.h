#pragma once
// Loops of kernels that treat each element of an array alike: neighbouring elements together, in one access of up to 16
// bytes, and more than one such group in flight in each thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/device_types.h"
#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::kernels {

/// Elements that move together where memory is aligned: 16 bytes of the widest type.
template <typename... T>
inline constexpr int kGroupWidth = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// Whether all pointers are aligned to kWidth elements of theirs.
template <int kWidth, typename... T>
bool aligned_groups(const T*... p) {
  return (... && (reinterpret_cast<uintptr_t>(p) % (kWidth * sizeof(T)) == 0));
}

inline constexpr int kMapThreads = 256;
inline constexpr int kMapUnroll = 2;  // groups in flight in a thread, for each operand

/// The launch for map_groups over `count` elements of operands of these types, each of which is moved once.
template <typename... T>
LaunchShape map_shape(int64_t count, int width) {
  const int64_t groups = (count + width - 1) / width;
  return {.grid = blocks_for(groups, int64_t{kMapThreads} * kMapUnroll),
          .block = kMapThreads,
          .bytes = count * (... + int64_t{sizeof(T)})};
}

/// y[i...] = f(Count<kWidth>(), i, x[i...]...) for i = 0, kWidth, ... below count; pointers are aligned_groups<kWidth>.
/// f takes and returns Values<kWidth>; where count is no multiple, it is called for the last elements one by one, with
/// Count<1>. y may be any of x.
template <int kWidth, typename F, typename To, typename... From>
__device__ void map_groups(int64_t count, F f, To* y, const From*... x) {
  constexpr int kTile = kMapThreads * kMapUnroll;
  const int64_t groups = count / kWidth;
  const int64_t tile = int64_t{blockIdx.x} * kTile, first = tile + threadIdx.x;
  if (tile + kTile <= groups) {
    // All loads before the stores, which the compiler must take to change what later loads see.
    Values<kWidth> results[kMapUnroll];
#pragma unroll
    for (int u = 0; u < kMapUnroll; ++u) {
      const int64_t i = (first + u * kMapThreads) * kWidth;
      results[u] = f(Count<kWidth>(), i, load_values<kWidth>(x + i)...);
    }
#pragma unroll
    for (int u = 0; u < kMapUnroll; ++u) store_values<kWidth>(y + (first + u * kMapThreads) * kWidth, results[u]);
  } else {
    for (int64_t group = first; group < groups; group += kMapThreads) {
      const int64_t i = group * kWidth;
      store_values<kWidth>(y + i, f(Count<kWidth>(), i, load_values<kWidth>(x + i)...));
    }
  }
  if constexpr (kWidth > 1) {
    const int64_t i = groups * kWidth + threadIdx.x;
    if (blockIdx.x == 0 && i < count) store_values<1>(y + i, f(Count<1>(), i, load_values<1>(x + i)...));
  }
}

/// y[i] = f(x[i]...), f on floats.
template <int kWidth, typename F, typename To, typename... From>
__device__ void map_elements(int64_t count, F f, To* y, const From*... x) {
  map_groups<kWidth>(
      count,
      [f]<int kCount>(Count<kCount>, int64_t, const auto&... values) {
        Values<kCount> result;
#pragma unroll
        for (int i = 0; i < kCount; ++i) result.at[i] = f(values.at[i]...);
        return result;
      },
      y, x...);
}

}  // namespace engine::kernels
