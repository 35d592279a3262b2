#include "kernels/common/pointwise.h"
#include "kernels/relu/relu_cuda.h"

namespace engine::kernels {
namespace {

template <typename T, int kWidth>
__global__ void relu_forward_kernel(const T* x, T* y, int64_t count) {
  map_elements<kWidth>(
      count, [](float value) { return value < 0 ? 0.0F : value; }, y, x);
}

template <typename T, int kWidth>
__global__ void relu_backward_kernel(const T* y, const T* grad_y, T* grad_x, int64_t count) {
  map_elements<kWidth>(
      count, [](float result, float grad) { return result <= 0 ? 0.0F : grad; }, grad_x, y, grad_y);
}

}  // namespace

template <typename T>
void relu_forward_cuda(const T* x, T* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(x, y)) {
    launch<relu_forward_kernel<T, kWidth>>(map_shape<T, T>(count, kWidth), stream, x, y, count);
  } else {
    launch<relu_forward_kernel<T, 1>>(map_shape<T, T>(count, 1), stream, x, y, count);
  }
}

template <typename T>
void relu_backward_cuda(const T* y, const T* grad_y, T* grad_x, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(y, grad_y, grad_x)) {
    launch<relu_backward_kernel<T, kWidth>>(map_shape<T, T, T>(count, kWidth), stream, y, grad_y, grad_x, count);
  } else {
    launch<relu_backward_kernel<T, 1>>(map_shape<T, T, T>(count, 1), stream, y, grad_y, grad_x, count);
  }
}

template void relu_forward_cuda(const float*, float*, int64_t, cudaStream_t);
template void relu_forward_cuda(const Half*, Half*, int64_t, cudaStream_t);
template void relu_forward_cuda(const BFloat16*, BFloat16*, int64_t, cudaStream_t);
template void relu_backward_cuda(const float*, const float*, float*, int64_t, cudaStream_t);
template void relu_backward_cuda(const Half*, const Half*, Half*, int64_t, cudaStream_t);
template void relu_backward_cuda(const BFloat16*, const BFloat16*, BFloat16*, int64_t, cudaStream_t);

}  // namespace engine::kernels
