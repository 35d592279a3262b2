#include "kernels/add/add_cuda.h"
#include "kernels/common/pointwise.h"

namespace engine::kernels {
namespace {

template <typename T, int kWidth>
__global__ void add_forward_kernel(const T* a, const T* b, T* y, int64_t count) {
  map_elements<kWidth>(
      count, [](float left, float right) { return left + right; }, y, a, b);
}

}  // namespace

template <typename T>
void add_forward_cuda(const T* a, const T* b, T* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(a, b, y)) {
    launch<add_forward_kernel<T, kWidth>>(map_shape<T, T, T>(count, kWidth), stream, a, b, y, count);
  } else {
    launch<add_forward_kernel<T, 1>>(map_shape<T, T, T>(count, 1), stream, a, b, y, count);
  }
}

template <typename T>
void add_accumulate_cuda(const T* src, T* dst, int64_t count, cudaStream_t stream) {
  add_forward_cuda(dst, src, dst, count, stream);
}

template void add_forward_cuda(const float*, const float*, float*, int64_t, cudaStream_t);
template void add_forward_cuda(const Half*, const Half*, Half*, int64_t, cudaStream_t);
template void add_forward_cuda(const BFloat16*, const BFloat16*, BFloat16*, int64_t, cudaStream_t);
template void add_accumulate_cuda(const float*, float*, int64_t, cudaStream_t);
template void add_accumulate_cuda(const Half*, Half*, int64_t, cudaStream_t);
template void add_accumulate_cuda(const BFloat16*, BFloat16*, int64_t, cudaStream_t);

}  // namespace engine::kernels
