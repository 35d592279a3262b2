#include "kernels/cast/cast_cuda.h"
#include "kernels/common/pointwise.h"

namespace engine::kernels {
namespace {

template <typename From, typename To, int kWidth>
__global__ void cast_kernel(const From* x, To* y, int64_t count) {
  map_elements<kWidth>(
      count, [](float value) { return value; }, y, x);
}

}  // namespace

template <typename From, typename To>
void cast_cuda(const From* x, To* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<From, To>;
  if (aligned_groups<kWidth>(x, y)) {
    launch<cast_kernel<From, To, kWidth>>(map_shape<From, To>(count, kWidth), stream, x, y, count);
  } else {
    launch<cast_kernel<From, To, 1>>(map_shape<From, To>(count, 1), stream, x, y, count);
  }
}

template void cast_cuda(const float*, float*, int64_t, cudaStream_t);
template void cast_cuda(const float*, Half*, int64_t, cudaStream_t);
template void cast_cuda(const float*, BFloat16*, int64_t, cudaStream_t);
template void cast_cuda(const Half*, float*, int64_t, cudaStream_t);
template void cast_cuda(const Half*, Half*, int64_t, cudaStream_t);
template void cast_cuda(const Half*, BFloat16*, int64_t, cudaStream_t);
template void cast_cuda(const BFloat16*, float*, int64_t, cudaStream_t);
template void cast_cuda(const BFloat16*, Half*, int64_t, cudaStream_t);
template void cast_cuda(const BFloat16*, BFloat16*, int64_t, cudaStream_t);

}  // namespace engine::kernels
