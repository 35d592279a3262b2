#pragma once
// Small kernels with a bug each, and their correct twins, for the tests of checked mode.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::testing {

inline constexpr int kThreads = 256;

__device__ inline int64_t element() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

/// y[i] = 2 x[i], one thread an element.
__global__ inline void scale_kernel(const float* x, float* y, int64_t n) {
  if (element() < n) y[element()] = 2 * x[element()];
}

/// y[i] += x[i].
__global__ inline void accumulate_kernel(const float* x, float* y) { y[element()] += x[element()]; }

/// Each block turns its elements around.
template <bool kBarrier>
__global__ void reverse_kernel(const float* x, float* y) {
  ENGINE_SHARED(float, tile, kThreads);
  tile[threadIdx.x] = x[element()];
  if constexpr (kBarrier) __syncthreads();
  y[element()] = tile[kThreads - 1 - threadIdx.x];
}

/// Neighbouring lanes swap, through shared memory.
template <bool kBarrier>
__global__ void swap_lanes_kernel(const float* x, float* y) {
  ENGINE_SHARED(float, tile, kThreads);
  tile[threadIdx.x] = x[element()];
  if constexpr (kBarrier) __syncwarp();
  y[element()] = tile[threadIdx.x ^ 1];
}

/// Lanes swap with the kReach-th, and only halves of a warp meet: right up to 15.
template <int kReach>
__global__ void swap_in_halves_kernel(const float* x, float* y) {
  ENGINE_SHARED(float, tile, kThreads);
  tile[threadIdx.x] = x[element()];
  __syncwarp(threadIdx.x % 32 < 16 ? 0x0000FFFFU : 0xFFFF0000U);
  y[element()] = tile[threadIdx.x ^ kReach];
}

/// A shuffle is a barrier of the warp, too; then the tile is used again.
__global__ inline void shuffle_kernel(const float* x, float* y) {
  ENGINE_SHARED(float, tile, kThreads);
  tile[threadIdx.x] = x[element()];
  float sum = __shfl_xor_sync(0xFFFFFFFFU, x[element()], 1);
  sum += tile[threadIdx.x ^ 1];
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
  tile[threadIdx.x] = sum;
  y[element()] = sum;
}

/// Each block reads what another one writes (kOwn: what it writes itself).
template <bool kOwn>
__global__ void neighbour_kernel(float* y) {
  y[element()] = static_cast<float>(threadIdx.x);
  const int64_t count = int64_t{gridDim.x} * blockDim.x;
  const float other = y[kOwn ? element() : (element() + blockDim.x) % count];
  y[element()] = other + 1;
}

/// All blocks add to one number.
template <bool kAtomic>
__global__ void count_kernel(int* total) {
  if (threadIdx.x != 0) return;
  if constexpr (kAtomic) {
    atomicAdd(total, 1);
  } else {
    *total += 1;
  }
}

/// Threads of a block exchange through global memory.
template <bool kBarrier>
__global__ void scratch_kernel(float* scratch, float* y) {
  scratch[element()] = 1;
  if constexpr (kBarrier) __syncthreads();
  y[element()] = scratch[blockIdx.x * blockDim.x + (threadIdx.x + 100) % blockDim.x];
}

/// A tile of which kWritten elements are written, and all are read.
template <int kWritten>
__global__ void part_kernel(float* y) {
  ENGINE_SHARED(float, tile, kThreads);
  if (threadIdx.x < kWritten) tile[threadIdx.x] = 1;
  __syncthreads();
  y[element()] = tile[threadIdx.x];
}

/// 16 bytes a thread; x and y must be aligned to that.
__global__ inline void copy_packs_kernel(const float* x, float* y) {
  kernels::store_values(y + 4 * element(), kernels::load_values<4>(x + 4 * element()));
}

/// Each thread reads kStride floats apart.
template <int kStride>
__global__ void gather_kernel(const float* x, float* y) {
  y[element()] = x[element() * kStride];
}

/// Some threads never come.
template <int kComing>
__global__ void meet_kernel(float* y) {
  y[element()] = 1;
  if (threadIdx.x < kComing) __syncthreads();
}

/// Writes rows of 32 and reads columns, rows kPitch apart in shared memory.
template <int kPitch>
__global__ void transpose_kernel(const float* x, float* y) {
  ENGINE_SHARED(float, tile, 32 * kPitch);
  const unsigned row = threadIdx.x / 32, column = threadIdx.x % 32;
  tile[row * kPitch + column] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[column * kPitch + row];
}

/// Elements of 8 and of 16 bytes in shared memory, kStride apart.
template <int kStride>
__global__ void wide_tile_kernel(const float* x, float* y) {
  constexpr int kSize = 64 * kStride;
  ENGINE_SHARED(double, wide, kSize);
  using Four = kernels::detail::StoredValues<float, 4>;
  ENGINE_SHARED(Four, wider, kSize);
  const unsigned at = threadIdx.x % 64 * kStride;
  wide[at] = static_cast<double>(x[element()]);
  kernels::store_values(wider[at].at, kernels::load_values<4>(x + 4 * element()));
  y[element()] = static_cast<float>(wide[at]) + kernels::load_values<4>(wider[at].at).at[3];
}

/// Even and odd lanes write in turns, with a barrier between.
__global__ inline void take_turns_kernel(float* y) {
  for (unsigned turn = 0; turn < 2; ++turn) {
    if (threadIdx.x % 2 == turn) y[element()] = 1;
    __syncthreads();
  }
}

/// The first half of each warp's lanes does more.
__global__ inline void half_masked_kernel(const float* x, float* y, float* z) {
  const float value = x[element()];
  y[element()] = value;
  if (threadIdx.x % 32 < 16) z[element()] = value;
}

/// Counts into bins of shared memory.
__global__ inline void histogram_kernel(const int* x, int* bins) {
  ENGINE_SHARED(int, count, 8);
  if (threadIdx.x < 8) count[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&count[x[element()] % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&bins[threadIdx.x], count[threadIdx.x]);
}

/// Neighbouring threads write neighbouring halves of a word.
__global__ inline void halves_kernel(const kernels::Half* x, kernels::Half* y) { y[element()] = x[element()]; }

}  // namespace engine::testing
