#include <cmath>
#include <type_traits>

#include "kernels/common/device_pool2d.h"
#include "kernels/common/pointwise.h"
#include "kernels/max_pool2d/max_pool2d_cuda.h"

namespace engine::kernels {
namespace {

// The places of neighbouring elements, a byte each, moved at once.
template <int kWidth>
using Places = std::conditional_t<kWidth == 1, uint8_t, std::conditional_t<kWidth == 4, uint32_t, uint64_t>>;

template <int kWidth>
struct Winners {
  Values<kWidth> values;
  int places[kWidth];
};

template <int kWidth, bool kPlaces>
__device__ void compete(Winners<kWidth>& winners, const Values<kWidth>& values, int place) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float value = values.at[i];
    const bool wins = value > winners.values.at[i] || value != value;
    if (wins) winners.values.at[i] = value;
    if (kPlaces && wins) winners.places[i] = place;
  }
}

template <int kWidth, bool kPlaces, typename T>
__device__ Winners<kWidth> winners_of(const PoolPlan& plan, const PoolItem& item, const T* picture) {
  constexpr int kAtOnce = 3;  // columns in flight
  const Extent rows = plan.rows.window(item.row), columns = plan.columns.window(item.column);
  const int kernel_w = plan.columns.kernel();
  const int origin = plan.rows.begin(item.row) * kernel_w + plan.columns.begin(item.column);
  Winners<kWidth> winners;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    winners.values.at[i] = -INFINITY;
    winners.places[i] = rows.begin * kernel_w + columns.begin - origin;
  }
  for (int h = rows.begin; h < rows.end; ++h) {
    for (int w = columns.begin; w < columns.end; w += kAtOnce) {
      Values<kWidth> values[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int pixel = h * plan.columns.in() + w + j;
        if (w + j < columns.end) values[j] = load_values<kWidth>(picture + pixel * plan.channels + item.channel);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (w + j < columns.end) compete<kWidth, kPlaces>(winners, values[j], h * kernel_w + w + j - origin);
      }
    }
  }
  return winners;
}

template <typename T, int kWidth, bool kPlaces>
__global__ void max_pool2d_forward_kernel(PoolPlan plan, const T* x, T* y, uint8_t* index) {
  const int thread = static_cast<int>(blockIdx.x * kPoolThreads + threadIdx.x);
  if (thread >= plan.out_size / kWidth) return;
  const PoolItem item = pool_item(thread, plan.groups, plan.out_columns, kWidth);
  for (int64_t picture = blockIdx.y; picture < plan.pictures; picture += gridDim.y) {
    const Winners<kWidth> winners = winners_of<kWidth, kPlaces>(plan, item, x + picture * plan.in_size);
    const int64_t out = picture * plan.out_size + int64_t{thread} * kWidth;
    store_values<kWidth>(y + out, winners.values);
    if constexpr (kPlaces) {
      Places<kWidth> places = 0;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        places = static_cast<Places<kWidth>>(places | static_cast<Places<kWidth>>(winners.places[i]) << 8 * i);
      }
      *reinterpret_cast<Places<kWidth>*>(index + out) = places;
    }
  }
}

template <typename T, int kWidth>
__global__ void max_pool2d_backward_kernel(PoolPlan plan, const T* grad_y, const uint8_t* index, T* grad_x) {
  constexpr int kAtOnce = 2;  // columns in flight
  const int thread = static_cast<int>(blockIdx.x * kPoolThreads + threadIdx.x);
  if (thread >= plan.in_size / kWidth) return;
  const PoolItem item = pool_item(thread, plan.groups, plan.in_columns, kWidth);
  const Extent rows = plan.rows.windows_of(item.row), columns = plan.columns.windows_of(item.column);
  for (int64_t picture = blockIdx.y; picture < plan.pictures; picture += gridDim.y) {
    Values<kWidth> sums{};
    for (int oh = rows.begin; oh < rows.end; ++oh) {
      for (int ow = columns.begin; ow < columns.end; ow += kAtOnce) {
        Values<kWidth> grads[kAtOnce];
        Places<kWidth> winners[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (ow + j >= columns.end) continue;
          const int64_t out =
              picture * plan.out_size + ((oh * plan.columns.out() + ow + j) * plan.channels + item.channel);
          grads[j] = load_values<kWidth>(grad_y + out);
          winners[j] = *reinterpret_cast<const Places<kWidth>*>(index + out);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (ow + j >= columns.end) continue;
          const int place =
              (item.row - plan.rows.begin(oh)) * plan.columns.kernel() + item.column - plan.columns.begin(ow + j);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) {
            if (static_cast<int>(winners[j] >> 8 * i & 0xFF) == place) sums.at[i] += grads[j].at[i];
          }
        }
      }
    }
    store_values<kWidth>(grad_x + picture * plan.in_size + int64_t{thread} * kWidth, sums);
  }
}

template <typename T, int kWidth>
void forward(const Pool2dShape& shape, const T* x, T* y, uint8_t* index, cudaStream_t stream) {
  const PoolPlan plan(shape, kWidth);
  const LaunchShape launch_shape =
      plan.shape(plan.out_size / kWidth, sizeof(T), sizeof(T) + (index != nullptr ? 1 : 0));
  if (index != nullptr) {
    launch<max_pool2d_forward_kernel<T, kWidth, true>>(launch_shape, stream, plan, x, y, index);
  } else {
    launch<max_pool2d_forward_kernel<T, kWidth, false>>(launch_shape, stream, plan, x, y, index);
  }
}

template <typename T, int kWidth>
void backward(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x, cudaStream_t stream) {
  const PoolPlan plan(shape, kWidth);
  launch<max_pool2d_backward_kernel<T, kWidth>>(plan.shape(plan.in_size / kWidth, sizeof(T), sizeof(T) + 1), stream,
                                                plan, grad_y, index, grad_x);
}

}  // namespace

template <typename T>
void max_pool2d_forward_cuda(const Pool2dShape& shape, const T* x, T* y, uint8_t* index, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(x, y, index) && shape.c % kWidth == 0) {
    forward<T, kWidth>(shape, x, y, index, stream);
  } else {
    forward<T, 1>(shape, x, y, index, stream);
  }
}

template <typename T>
void max_pool2d_backward_cuda(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x,
                              cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(grad_y, index, grad_x) && shape.c % kWidth == 0) {
    backward<T, kWidth>(shape, grad_y, index, grad_x, stream);
  } else {
    backward<T, 1>(shape, grad_y, index, grad_x, stream);
  }
}

template void max_pool2d_forward_cuda(const Pool2dShape&, const float*, float*, uint8_t*, cudaStream_t);
template void max_pool2d_forward_cuda(const Pool2dShape&, const Half*, Half*, uint8_t*, cudaStream_t);
template void max_pool2d_forward_cuda(const Pool2dShape&, const BFloat16*, BFloat16*, uint8_t*, cudaStream_t);
template void max_pool2d_backward_cuda(const Pool2dShape&, const float*, const uint8_t*, float*, cudaStream_t);
template void max_pool2d_backward_cuda(const Pool2dShape&, const Half*, const uint8_t*, Half*, cudaStream_t);
template void max_pool2d_backward_cuda(const Pool2dShape&, const BFloat16*, const uint8_t*, BFloat16*, cudaStream_t);

}  // namespace engine::kernels
