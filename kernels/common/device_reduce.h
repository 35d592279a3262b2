#pragma once
// Sums and maxima over warps and blocks, in a fixed order: bit-equal from run to run.

#include "kernels/common/device.h"

namespace engine::kernels {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// Thread's index in its block, blocks of up to three dimensions.
__device__ inline int thread_in_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// The larger one; NaN where one is NaN.
struct Maximum {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// All lanes get the result; every lane of the warp must take part.
template <typename Combine, typename T>
__device__ T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// All threads get the result; every thread of the block must take part, kThreads of them, a multiple of the warp. May
/// be called again at once.
template <int kThreads, typename Combine, typename T>
__device__ T block_reduce(T value, Combine combine) {
  static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
  constexpr int kWarps = kThreads / kWarp;
  ENGINE_SHARED(T, partial, kWarps);
  value = warp_reduce(value, combine);
  if constexpr (kWarps == 1) return value;
  const int thread = thread_in_block();
  __syncthreads();  // a former call's results have been read
  if (thread % kWarp == 0) partial[thread / kWarp] = value;
  __syncthreads();
  T total = partial[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) total = combine(total, partial[warp]);
  return total;
}

}  // namespace engine::kernels
