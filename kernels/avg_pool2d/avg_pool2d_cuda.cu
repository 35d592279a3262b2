#include <algorithm>

#include "kernels/avg_pool2d/avg_pool2d_cuda.h"
#include "kernels/common/column_layout.h"
#include "kernels/common/device_pool2d.h"
#include "kernels/common/pointwise.h"

namespace engine::kernels {
namespace {

// Mean over the pixels of `rows` and `columns` of a tensor that is row_pixels wide.
template <int kWidth, typename T>
__device__ Values<kWidth> scaled_sum(const T* first, Extent rows, Extent columns, int row_pixels, int channels,
                                     float scale) {
  Values<kWidth> sums{};
  for (int h = rows.begin; h < rows.end; ++h) {
#pragma unroll 4
    for (int w = columns.begin; w < columns.end; ++w) {
      const Values<kWidth> values = load_values<kWidth>(first + (h * row_pixels + w) * channels);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums.at[i] += values.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums.at[i] *= scale;
  return sums;
}

template <typename T, int kWidth>
__global__ void avg_pool2d_forward_kernel(PoolPlan plan, float scale, const T* x, T* y) {
  const int thread = static_cast<int>(blockIdx.x * kPoolThreads + threadIdx.x);
  if (thread >= plan.out_size / kWidth) return;
  const PoolItem item = pool_item(thread, plan.groups, plan.out_columns, kWidth);
  const Extent rows = plan.rows.window(item.row), columns = plan.columns.window(item.column);
  for (int64_t picture = blockIdx.y; picture < plan.pictures; picture += gridDim.y) {
    const T* first = x + picture * plan.in_size + item.channel;
    store_values<kWidth>(y + picture * plan.out_size + int64_t{thread} * kWidth,
                         scaled_sum<kWidth>(first, rows, columns, plan.columns.in(), plan.channels, scale));
  }
}

template <typename T, int kWidth>
__global__ void avg_pool2d_backward_kernel(PoolPlan plan, float scale, const T* grad_y, T* grad_x) {
  const int thread = static_cast<int>(blockIdx.x * kPoolThreads + threadIdx.x);
  if (thread >= plan.in_size / kWidth) return;
  const PoolItem item = pool_item(thread, plan.groups, plan.in_columns, kWidth);
  const Extent rows = plan.rows.windows_of(item.row), columns = plan.columns.windows_of(item.column);
  for (int64_t picture = blockIdx.y; picture < plan.pictures; picture += gridDim.y) {
    const T* first = grad_y + picture * plan.out_size + item.channel;
    store_values<kWidth>(grad_x + picture * plan.in_size + int64_t{thread} * kWidth,
                         scaled_sum<kWidth>(first, rows, columns, plan.columns.out(), plan.channels, scale));
  }
}

template <typename T, int kWidth>
__global__ void global_avg_pool_forward_kernel(const T* x, T* y, int64_t pictures, int64_t spatial,
                                               ColumnLayout layout) {
  const int64_t channels = layout.columns(kWidth), channel = layout.first_column(blockIdx.x, kWidth) + threadIdx.x;
  const float scale = 1.0F / static_cast<float>(spatial);
  for (int64_t picture = blockIdx.y; picture < pictures; picture += gridDim.y) {
    const float sum = column_sums<kWidth>(layout, blockIdx.x, x + picture * spatial * channels, 0, spatial, channels);
    if (static_cast<int>(threadIdx.x) < layout.lanes() * kWidth && channel < channels) {
      y[picture * channels + channel] = from_float<T>(sum * scale);
    }
  }
}

template <typename T, int kWidth>
__global__ void global_avg_pool_backward_kernel(const T* grad_y, T* grad_x, int64_t pictures, int64_t spatial,
                                                ColumnLayout layout) {
  const int64_t group = layout.group(blockIdx.x), channels = layout.columns(kWidth);
  if (!layout.has(group) || layout.row() >= spatial) return;
  const float scale = 1.0F / static_cast<float>(spatial);
  for (int64_t picture = blockIdx.y; picture < pictures; picture += gridDim.y) {
    Values<kWidth> values = load_values<kWidth>(grad_y + picture * channels + group * kWidth);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.at[i] *= scale;
    for (int64_t row = layout.row(); row < spatial; row += layout.row_step()) {
      store_values<kWidth>(grad_x + (picture * spatial + row) * channels + group * kWidth, values);
    }
  }
}

float window_scale(const Pool2dShape& shape) { return 1.0F / static_cast<float>(shape.kernel_h * shape.kernel_w); }

template <typename T, int kWidth>
void forward(const Pool2dShape& shape, const T* x, T* y, cudaStream_t stream) {
  const PoolPlan plan(shape, kWidth);
  launch<avg_pool2d_forward_kernel<T, kWidth>>(plan.shape(plan.out_size / kWidth, sizeof(T), sizeof(T)), stream, plan,
                                               window_scale(shape), x, y);
}

template <typename T, int kWidth>
void backward(const Pool2dShape& shape, const T* grad_y, T* grad_x, cudaStream_t stream) {
  const PoolPlan plan(shape, kWidth);
  launch<avg_pool2d_backward_kernel<T, kWidth>>(plan.shape(plan.in_size / kWidth, sizeof(T), sizeof(T)), stream, plan,
                                                window_scale(shape), grad_y, grad_x);
}

template <typename T>
LaunchShape column_shape(const ColumnLayout& layout, int64_t pictures, int64_t spatial, int64_t channels) {
  return {.grid = {layout.tiles(), static_cast<unsigned>(std::min(pictures, kPoolPictures))},
          .block = kColumnThreads,
          .bytes = pictures * (spatial + 1) * channels * int64_t{sizeof(T)}};
}

}  // namespace

template <typename T>
void avg_pool2d_forward_cuda(const Pool2dShape& shape, const T* x, T* y, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(x, y) && shape.c % kWidth == 0) {
    forward<T, kWidth>(shape, x, y, stream);
  } else {
    forward<T, 1>(shape, x, y, stream);
  }
}

template <typename T>
void avg_pool2d_backward_cuda(const Pool2dShape& shape, const T* grad_y, T* grad_x, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(grad_y, grad_x) && shape.c % kWidth == 0) {
    backward<T, kWidth>(shape, grad_y, grad_x, stream);
  } else {
    backward<T, 1>(shape, grad_y, grad_x, stream);
  }
}

template <typename T>
void global_avg_pool_forward_cuda(const T* x, T* y, int64_t n, int64_t spatial, int64_t c, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(x) && c % kWidth == 0) {
    const ColumnLayout layout(c, kWidth);
    launch<global_avg_pool_forward_kernel<T, kWidth>>(column_shape<T>(layout, n, spatial, c), stream, x, y, n, spatial,
                                                      layout);
  } else {
    const ColumnLayout layout(c, 1);
    launch<global_avg_pool_forward_kernel<T, 1>>(column_shape<T>(layout, n, spatial, c), stream, x, y, n, spatial,
                                                 layout);
  }
}

template <typename T>
void global_avg_pool_backward_cuda(const T* grad_y, T* grad_x, int64_t n, int64_t spatial, int64_t c,
                                   cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(grad_y, grad_x) && c % kWidth == 0) {
    const ColumnLayout layout(c, kWidth);
    launch<global_avg_pool_backward_kernel<T, kWidth>>(column_shape<T>(layout, n, spatial, c), stream, grad_y, grad_x,
                                                       n, spatial, layout);
  } else {
    const ColumnLayout layout(c, 1);
    launch<global_avg_pool_backward_kernel<T, 1>>(column_shape<T>(layout, n, spatial, c), stream, grad_y, grad_x, n,
                                                  spatial, layout);
  }
}

template void avg_pool2d_forward_cuda(const Pool2dShape&, const float*, float*, cudaStream_t);
template void avg_pool2d_forward_cuda(const Pool2dShape&, const Half*, Half*, cudaStream_t);
template void avg_pool2d_forward_cuda(const Pool2dShape&, const BFloat16*, BFloat16*, cudaStream_t);
template void avg_pool2d_backward_cuda(const Pool2dShape&, const float*, float*, cudaStream_t);
template void avg_pool2d_backward_cuda(const Pool2dShape&, const Half*, Half*, cudaStream_t);
template void avg_pool2d_backward_cuda(const Pool2dShape&, const BFloat16*, BFloat16*, cudaStream_t);
template void global_avg_pool_forward_cuda(const float*, float*, int64_t, int64_t, int64_t, cudaStream_t);
template void global_avg_pool_forward_cuda(const Half*, Half*, int64_t, int64_t, int64_t, cudaStream_t);
template void global_avg_pool_forward_cuda(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t, cudaStream_t);
template void global_avg_pool_backward_cuda(const float*, float*, int64_t, int64_t, int64_t, cudaStream_t);
template void global_avg_pool_backward_cuda(const Half*, Half*, int64_t, int64_t, int64_t, cudaStream_t);
template void global_avg_pool_backward_cuda(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t, cudaStream_t);

}  // namespace engine::kernels
