#include "kernels/conv2d/conv2d_direct_cuda.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "kernels/common/device_types.h"
#include "kernels/common/launch.h"
#include "kernels/conv2d/conv2d_direct_operands.h"

namespace engine::kernels {
namespace {

using direct::ChannelsByTaps;
using direct::FiltersByPixels;
using direct::FiltersByTaps;
using direct::Geometry;
using direct::InputsByTaps;
using direct::PixelsByTaps;
using direct::TapsByPixels;

constexpr int kTile = 64;          // rows and columns of a block's results
constexpr int kDepth = 16;         // of what is in shared memory at once
constexpr int kThreads = 256;      // a square of kSide x kSide
constexpr int kSide = 16;          // a thread's results are kSide apart, so that neighbours read neighbouring banks
constexpr int kResults = 4;        // of a thread, in rows and in columns
constexpr int kShare = 4;          // elements that a thread brings into each tile
constexpr int kPitch = kTile + 2;  // 16 depths of 2 columns lie in 32 different banks

static_assert(kSide * kSide == kThreads && kSide * kResults == kTile && kThreads * kShare == kTile * kDepth);

/// What a thread brings into an operand's tile [kDepth][kPitch].
template <typename Operand>
class Share {
 public:
  __device__ Share(const Operand& operand, int first) : operand_(operand) {
#pragma unroll
    for (int i = 0; i < kOuters; ++i) outers_[i] = operand.outer(first + outer_index(i));
  }
  __device__ void fetch(int depth) {
    if constexpr (Operand::kInnerFirst) {
      const auto inner = operand_.inner(depth + inner_index(0));
#pragma unroll
      for (int i = 0; i < kShare; ++i) values_[i] = operand_.at(outers_[i], inner);
    } else {
#pragma unroll
      for (int i = 0; i < kShare; ++i) values_[i] = operand_.at(outers_[0], operand_.inner(depth + inner_index(i)));
    }
  }
  __device__ void put(float* tile) const {
#pragma unroll
    for (int i = 0; i < kShare; ++i) tile[inner_index(i) * kPitch + outer_index(i)] = values_[i];
  }

 private:
  static constexpr int kOuters = Operand::kInnerFirst ? kShare : 1;
  static __device__ int outer_index(int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return Operand::kInnerFirst ? thread / kDepth + i * (kThreads / kDepth) : thread % kTile;
  }
  static __device__ int inner_index(int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return Operand::kInnerFirst ? thread % kDepth : thread / kTile + i * (kThreads / kTile);
  }

  Operand operand_;
  decltype(std::declval<const Operand&>().outer(0)) outers_[kOuters];
  float values_[kShare];
};

/// The block's tile of rows * columns over the terms [begin, end); store(row, column, value) is called for each result,
/// those outside of the matrix, too.
template <typename Rows, typename Columns, typename Store>
__device__ inline void multiply(const Rows& rows, const Columns& columns, int begin, int end, Store&& store) {
  ENGINE_SHARED(float, row_tile, kDepth* kPitch);
  ENGINE_SHARED(float, column_tile, kDepth* kPitch);
  const int first_row = static_cast<int>(blockIdx.x) * kTile, first_column = static_cast<int>(blockIdx.y) * kTile;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  Share<Rows> row_share(rows, first_row);
  Share<Columns> column_share(columns, first_column);
  float sums[kResults][kResults] = {};
  row_share.fetch(begin);
  column_share.fetch(begin);
  for (int depth = begin; depth < end; depth += kDepth) {
    __syncthreads();
    row_share.put(row_tile);
    column_share.put(column_tile);
    __syncthreads();
    if (depth + kDepth < end) {
      row_share.fetch(depth + kDepth);
      column_share.fetch(depth + kDepth);
    }
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float a[kResults], b[kResults];
#pragma unroll
      for (int i = 0; i < kResults; ++i) a[i] = row_tile[d * kPitch + y + i * kSide];
#pragma unroll
      for (int j = 0; j < kResults; ++j) b[j] = column_tile[d * kPitch + x + j * kSide];
#pragma unroll
      for (int i = 0; i < kResults; ++i) {
#pragma unroll
        for (int j = 0; j < kResults; ++j) sums[i][j] += a[i] * b[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kResults; ++i) {
#pragma unroll
    for (int j = 0; j < kResults; ++j) {
      store(first_row + y + i * kSide, first_column + x + j * kSide, sums[i][j]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    conv2d_forward_direct_kernel(const T* x, const T* weight, T* y, Geometry g) {
  const int group = static_cast<int>(blockIdx.z);
  const PixelsByTaps<T> rows{g, x + group * g.c_group};
  const FiltersByTaps<T> columns{g, weight + int64_t{group} * g.k_group * g.taps_c};
  multiply(rows, columns, 0, g.taps_c, [&](int pixel, int filter, float value) {
    if (pixel >= g.pixels_out || filter >= g.k_group) return;
    y[int64_t{pixel} * g.k + group * g.k_group + filter] = from_float<T>(value);
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    conv2d_backward_data_direct_kernel(const T* grad_y, const T* weight, T* grad_x, Geometry g) {
  const int group = static_cast<int>(blockIdx.z);
  const InputsByTaps<T> rows{g, grad_y + group * g.k_group};
  const ChannelsByTaps<T> columns{g, weight + int64_t{group} * g.k_group * g.taps_c};
  multiply(rows, columns, 0, g.taps_k, [&](int pixel, int channel, float value) {
    if (pixel >= g.pixels_in || channel >= g.c_group) return;
    grad_x[int64_t{pixel} * g.c + group * g.c_group + channel] = from_float<T>(value);
  });
}

// blockIdx.z is a part of the pixels and a group; each part has its own copy of the sums.
template <typename T, typename Sum>
__global__ void __launch_bounds__(kThreads)
    conv2d_backward_weights_direct_kernel(const T* x, const T* grad_y, Sum* sums, Geometry g, int part_pixels) {
  const int part = static_cast<int>(blockIdx.z) / g.groups, group = static_cast<int>(blockIdx.z) % g.groups;
  const int begin = part * part_pixels;
  const int end = g.pixels_out - begin < part_pixels ? g.pixels_out : begin + part_pixels;
  const FiltersByPixels<T> rows{g, grad_y + group * g.k_group};
  const TapsByPixels<T> columns{g, x + group * g.c_group};
  Sum* const target = sums + (int64_t{part} * g.k + group * g.k_group) * g.taps_c;
  multiply(rows, columns, begin, end, [&](int filter, int tap, float value) {
    if (filter >= g.k_group || tap >= g.taps_c) return;
    target[int64_t{filter} * g.taps_c + tap] = from_float<Sum>(value);
  });
}

template <typename T>
__global__ void conv2d_add_parts_direct_kernel(const float* sums, T* result, int64_t count, int parts) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += sums[part * count + i];
  result[i] = from_float<T>(sum);
}

unsigned tiles(int count) { return blocks_for(count, kTile); }

struct Parts {
  int count, pixels;
};

/// Enough blocks to fill a GPU, each with enough pixels to be worth its copy of the sums. The same on every GPU.
Parts parts_of(const Conv2dShape& shape, const Geometry& g) {
  constexpr int64_t kBlocks = 512, kPixelsAPart = 8 * kDepth, kMostGridZ = 65535;
  const int64_t blocks = int64_t{tiles(g.k_group)} * tiles(g.taps_c) * shape.groups;
  const int64_t wanted =
      std::max<int64_t>(1, std::min({kBlocks / blocks, g.pixels_out / kPixelsAPart, kMostGridZ / shape.groups}));
  const int64_t pixels = (g.pixels_out + wanted - 1) / wanted;
  const int64_t whole = (pixels + kDepth - 1) / kDepth * kDepth;
  return {static_cast<int>((g.pixels_out + whole - 1) / whole), static_cast<int>(whole)};
}

}  // namespace

void require_direct(const Conv2dShape& shape) {
  shape.require_valid();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kTile, kMostGroups = 65535;
  const int64_t filters = shape.r * shape.s * std::max(shape.c, shape.k);
  const int64_t reach_h = shape.h + 2 * shape.pad_h, reach_w = shape.w + 2 * shape.pad_w;
  if (shape.n * reach_h * reach_w <= kMost && filters <= kMost && shape.groups <= kMostGroups) return;
  throw std::invalid_argument("[conv2d] shape: got " + shape.str() +
                              ", expected fewer than 2^31 pixels and filter values and 2^16 groups without cuDNN");
}

template <typename T>
void conv2d_forward_direct_cuda(const T* x, const T* weight, T* y, const Conv2dShape& shape, cudaStream_t stream) {
  require_direct(shape);
  const Geometry g(shape);
  const auto groups = static_cast<unsigned>(g.groups);
  launch<conv2d_forward_direct_kernel<T>>({.grid = {tiles(g.pixels_out), tiles(g.k_group), groups}, .block = kThreads},
                                          stream, x, weight, y, g);
}

template <typename T>
void conv2d_backward_data_direct_cuda(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape,
                                      cudaStream_t stream) {
  require_direct(shape);
  const Geometry g(shape);
  const auto groups = static_cast<unsigned>(g.groups);
  launch<conv2d_backward_data_direct_kernel<T>>(
      {.grid = {tiles(g.pixels_in), tiles(g.c_group), groups}, .block = kThreads}, stream, grad_y, weight, grad_x, g);
}

int64_t conv2d_backward_weights_direct_workspace_bytes(const Conv2dShape& shape) {
  require_direct(shape);
  const int64_t parts = parts_of(shape, Geometry(shape)).count;
  return parts == 1 ? 0 : parts * shape.weight_numel() * int64_t{sizeof(float)};
}

template <typename T>
void conv2d_backward_weights_direct_cuda(const ConvBackwardWeightsDirect<T>& args, const Conv2dShape& shape,
                                         cudaStream_t stream) {
  require_direct(shape);
  const Geometry g(shape);
  const Parts parts = parts_of(shape, g);
  const auto depth = static_cast<unsigned>(parts.count * g.groups);
  const LaunchShape blocks{.grid = {tiles(g.k_group), tiles(g.taps_c), depth}, .block = kThreads};
  if (parts.count == 1) {
    launch<conv2d_backward_weights_direct_kernel<T, T>>(blocks, stream, args.x, args.grad_y, args.grad_weight, g,
                                                        parts.pixels);
    return;
  }
  auto* const sums = static_cast<float*>(args.workspace);
  launch<conv2d_backward_weights_direct_kernel<T, float>>(blocks, stream, args.x, args.grad_y, sums, g, parts.pixels);
  const int64_t count = shape.weight_numel();
  launch<conv2d_add_parts_direct_kernel<T>>(
      {.grid = blocks_for(count, kThreads),
       .block = kThreads,
       .bytes = count * (parts.count * int64_t{sizeof(float)} + int64_t{sizeof(T)})},
      stream, static_cast<const float*>(sums), args.grad_weight, count, parts.count);
}

template void conv2d_forward_direct_cuda(const float*, const float*, float*, const Conv2dShape&, cudaStream_t);
template void conv2d_forward_direct_cuda(const Half*, const Half*, Half*, const Conv2dShape&, cudaStream_t);
template void conv2d_forward_direct_cuda(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&, cudaStream_t);
template void conv2d_backward_data_direct_cuda(const float*, const float*, float*, const Conv2dShape&, cudaStream_t);
template void conv2d_backward_data_direct_cuda(const Half*, const Half*, Half*, const Conv2dShape&, cudaStream_t);
template void conv2d_backward_data_direct_cuda(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&,
                                               cudaStream_t);
template void conv2d_backward_weights_direct_cuda(const ConvBackwardWeightsDirect<float>&, const Conv2dShape&,
                                                  cudaStream_t);
template void conv2d_backward_weights_direct_cuda(const ConvBackwardWeightsDirect<Half>&, const Conv2dShape&,
                                                  cudaStream_t);
template void conv2d_backward_weights_direct_cuda(const ConvBackwardWeightsDirect<BFloat16>&, const Conv2dShape&,
                                                  cudaStream_t);

}  // namespace engine::kernels
