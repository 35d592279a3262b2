#pragma once
// How blocks lie over the rows of a matrix [rows, columns], for kernels in which a thread keeps to its columns: a block
// has a power of two of neighbouring threads side by side, so many as the columns need, a warp at most, and the rest of
// its threads in further rows. So a thread divides nothing, and warps access whole rows also where these are short.

#include <algorithm>
#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/device_reduce.h"
#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::kernels {

inline constexpr int kColumnThreads = 256;

class ColumnLayout {
 public:
  /// For threads that take `width` neighbouring columns each; columns is a multiple of it.
  ColumnLayout(int64_t columns, int width) : groups_(columns / width) {
    while (log2_ < 5 && (int64_t{1} << log2_) < groups_) ++log2_;
  }

  /// Blocks side by side that cover all columns.
  unsigned tiles() const { return blocks_for(groups_, int64_t{1} << log2_); }
  /// Rows that a block covers at once.
  __host__ __device__ int row_step() const { return kColumnThreads >> log2_; }
  /// The thread's row among them.
  __device__ int row() const { return static_cast<int>(threadIdx.x) >> log2_; }
  /// The thread's group of columns in a tile; has() tells whether there is one.
  __device__ int64_t group(unsigned tile) const { return (int64_t{tile} << log2_) + lane(); }
  __device__ bool has(int64_t group) const { return group < groups_; }
  __device__ int64_t columns(int width) const { return groups_ * width; }
  __device__ int64_t first_column(unsigned tile, int width) const { return (int64_t{tile} << log2_) * width; }
  /// The thread's place among the row's threads, and their number.
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes() - 1); }
  __device__ int lanes() const { return 1 << log2_; }

 private:
  int64_t groups_;
  int log2_ = 0;
};

/// Sums rows [begin, end) of x ([rows, columns]), in float and in a fixed order. Afterwards thread i < kWidth *
/// layout.lanes() has the sum of the tile's column i; columns beyond the last sum to 0. All threads of the block take
/// part; may be called again at once.
template <int kWidth, typename T>
__device__ float column_sums(const ColumnLayout& layout, unsigned tile, const T* x, int64_t begin, int64_t end,
                             int64_t columns) {
  const int64_t group = layout.group(tile);
  Values<kWidth> sums{};
  if (layout.has(group)) {
    const T* column = x + group * kWidth;
#pragma unroll 4
    for (int64_t row = begin + layout.row(); row < end; row += layout.row_step()) {
      const Values<kWidth> values = load_values<kWidth>(column + row * columns);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums.at[i] += values.at[i];
    }
  }
  for (int offset = layout.lanes(); offset < kWarp; offset *= 2) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums.at[i] += __shfl_xor_sync(kAllLanes, sums.at[i], offset);
  }
  constexpr int kWarps = kColumnThreads / kWarp;
  // Rows so long that a warp's columns, read in their order, lie in different banks.
  constexpr int kStride = kWarps * kWarp + kWarp / kWidth;
  ENGINE_SHARED(float, partial, kWidth* kStride);
  const int thread = static_cast<int>(threadIdx.x), lane = layout.lane();
  __syncthreads();  // a former call's results have been read
  if (thread % kWarp < layout.lanes()) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) partial[i * kStride + thread / kWarp * layout.lanes() + lane] = sums.at[i];
  }
  __syncthreads();
  float total = 0;
  if (thread < kWidth * layout.lanes()) {
    for (int warp = 0; warp < kWarps; ++warp) {
      total += partial[thread % kWidth * kStride + warp * layout.lanes() + thread / kWidth];
    }
  }
  return total;
}

}  // namespace engine::kernels
