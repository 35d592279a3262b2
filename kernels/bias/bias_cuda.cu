#include <algorithm>

#include "kernels/bias/bias_cuda.h"
#include "kernels/common/column_layout.h"
#include "kernels/common/pointwise.h"

namespace engine::kernels {
namespace {

constexpr int kRowsAThread = 4;

template <typename T, int kWidth>
__global__ void bias_forward_kernel(BiasForwardCuda<T> args, ColumnLayout layout) {
  const int64_t group = layout.group(blockIdx.y);
  if (!layout.has(group)) return;
  const Values<kWidth> bias = load_values<kWidth>(args.bias + group * kWidth);
  const int64_t first = int64_t{blockIdx.x} * kRowsAThread * layout.row_step() + layout.row();
  Values<kWidth> results[kRowsAThread];
#pragma unroll
  for (int u = 0; u < kRowsAThread; ++u) {
    const int64_t row = first + u * layout.row_step();
    if (row < args.rows) results[u] = load_values<kWidth>(args.x + row * args.channels + group * kWidth);
  }
#pragma unroll
  for (int u = 0; u < kRowsAThread; ++u) {
    const int64_t row = first + u * layout.row_step();
    if (row >= args.rows) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float sum = results[u].at[i] + bias.at[i];
      results[u].at[i] = args.relu && sum < 0 ? 0.0F : sum;
    }
    store_values<kWidth>(args.y + row * args.channels + group * kWidth, results[u]);
  }
}

// Block (x, y) sums x's share of the rows, of y's columns, into row x of sums.
template <typename T, int kWidth>
__global__ void bias_backward_kernel(const T* grad_y, float* sums, int64_t rows, int64_t channels,
                                     ColumnLayout layout) {
  const int64_t share = (rows + gridDim.x - 1) / gridDim.x;
  const int64_t begin = share * blockIdx.x, end = begin + share < rows ? begin + share : rows;
  const float sum = column_sums<kWidth>(layout, blockIdx.y, grad_y, begin, end, channels);
  const int64_t channel = layout.first_column(blockIdx.y, kWidth) + threadIdx.x;
  if (static_cast<int>(threadIdx.x) < layout.lanes() * kWidth && channel < channels) {
    sums[blockIdx.x * channels + channel] = sum;
  }
}

// Enough blocks to fill a GPU, few enough that their sums are a small part of what they read.
int64_t row_shares(int64_t rows, int64_t channels) {
  constexpr int64_t kBlocks = 1024, kElementsABlock = 1 << 14, kRowsABlock = 32;
  const int64_t tiles = 1 + channels / kColumnThreads;
  return std::max<int64_t>(1, std::min({rows * channels / kElementsABlock, rows / kRowsABlock, kBlocks / tiles}));
}

template <typename T>
void sum_columns(const T* x, float* sums, int64_t rows, int64_t channels, unsigned shares, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  const int64_t bytes = channels * (rows * int64_t{sizeof(T)} + shares * int64_t{sizeof(float)});
  if (aligned_groups<kWidth>(x) && channels % kWidth == 0) {
    const ColumnLayout layout(channels, kWidth);
    launch<bias_backward_kernel<T, kWidth>>({.grid = {shares, layout.tiles()}, .block = kColumnThreads, .bytes = bytes},
                                            stream, x, sums, rows, channels, layout);
  } else {
    const ColumnLayout layout(channels, 1);
    launch<bias_backward_kernel<T, 1>>({.grid = {shares, layout.tiles()}, .block = kColumnThreads, .bytes = bytes},
                                       stream, x, sums, rows, channels, layout);
  }
}

template <typename T, int kWidth>
void add_bias(const BiasForwardCuda<T>& args, cudaStream_t stream) {
  const ColumnLayout layout(args.channels, kWidth);
  const unsigned blocks = blocks_for(args.rows, int64_t{kRowsAThread} * layout.row_step());
  const int64_t bytes = (2 * args.rows + 1) * args.channels * int64_t{sizeof(T)};
  launch<bias_forward_kernel<T, kWidth>>({.grid = {blocks, layout.tiles()}, .block = kColumnThreads, .bytes = bytes},
                                         stream, args, layout);
}

}  // namespace

template <typename T>
void bias_forward_cuda(const BiasForwardCuda<T>& args, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(args.x, args.bias, args.y) && args.channels % kWidth == 0) {
    add_bias<T, kWidth>(args, stream);
  } else {
    add_bias<T, 1>(args, stream);
  }
}

size_t bias_backward_workspace_bytes(int64_t rows, int64_t channels) {
  const int64_t shares = row_shares(rows, channels);
  return shares == 1 ? 0 : static_cast<size_t>(shares * channels) * sizeof(float);
}

template <typename T>
void bias_backward_cuda(const BiasBackwardCuda<T>& args, cudaStream_t stream) {
  const auto shares = static_cast<unsigned>(row_shares(args.rows, args.channels));
  if (shares == 1) return sum_columns(args.grad_y, args.grad_bias, args.rows, args.channels, 1, stream);
  auto* const sums = static_cast<float*>(args.workspace);
  sum_columns(args.grad_y, sums, args.rows, args.channels, shares, stream);
  sum_columns(sums, args.grad_bias, shares, args.channels, 1, stream);
}

template void bias_forward_cuda(const BiasForwardCuda<float>&, cudaStream_t);
template void bias_forward_cuda(const BiasForwardCuda<Half>&, cudaStream_t);
template void bias_forward_cuda(const BiasForwardCuda<BFloat16>&, cudaStream_t);
template void bias_backward_cuda(const BiasBackwardCuda<float>&, cudaStream_t);
template void bias_backward_cuda(const BiasBackwardCuda<Half>&, cudaStream_t);
template void bias_backward_cuda(const BiasBackwardCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
