#include "kernels/common/pointwise.h"
#include "kernels/fill/fill.h"

namespace engine::kernels {
namespace {

template <typename T, int kWidth>
__global__ void fill_kernel(float value, T* y, int64_t count) {
  map_elements<kWidth>(
      count, [value] { return value; }, y);
}

}  // namespace

template <typename T>
void fill_cuda(float value, T* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  if (aligned_groups<kWidth>(y)) {
    launch<fill_kernel<T, kWidth>>(map_shape<T>(count, kWidth), stream, value, y, count);
  } else {
    launch<fill_kernel<T, 1>>(map_shape<T>(count, 1), stream, value, y, count);
  }
}

template void fill_cuda(float, float*, int64_t, cudaStream_t);
template void fill_cuda(float, Half*, int64_t, cudaStream_t);
template void fill_cuda(float, BFloat16*, int64_t, cudaStream_t);

}  // namespace engine::kernels
