#include "kernels/common/pointwise.h"
#include "kernels/scale/scale.h"

namespace engine::kernels {
namespace {

template <typename T, int kWidth>
__global__ void scale_kernel(const T* x, const float* factor, T* y, int64_t count) {
  const float scale = *factor;
  map_elements<kWidth>(
      count, [scale](float value) { return value * scale; }, y, x);
}

}  // namespace

template <typename T>
void scale_cuda(const T* x, const float* factor, T* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(x, y)) {
    launch<scale_kernel<T, kWidth>>(map_shape<T, T>(count, kWidth), stream, x, factor, y, count);
  } else {
    launch<scale_kernel<T, 1>>(map_shape<T, T>(count, 1), stream, x, factor, y, count);
  }
}

template void scale_cuda(const float*, const float*, float*, int64_t, cudaStream_t);
template void scale_cuda(const Half*, const float*, Half*, int64_t, cudaStream_t);
template void scale_cuda(const BFloat16*, const float*, BFloat16*, int64_t, cudaStream_t);

}  // namespace engine::kernels
