#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/relu/relu.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

}  // namespace

// `omp simd` because results may be in place of an operand: same index, so lanes do not depend on each other.
template <typename T>
void relu_forward_cpu(const T* x, T* y, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    if constexpr (kNarrow<T>) {
      for_each_vector(end - begin, [=]<typename V>(int64_t offset) {
        const V value = load_as<V>(x + begin + offset);
        store_as(y + begin + offset, value < 0 ? V{} : value);
      });
    } else {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] < 0 ? T{0} : x[i];
    }
  });
}

template <typename T>
void relu_backward_cpu(const T* y, const T* grad_y, T* grad_x, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    if constexpr (kNarrow<T>) {
      for_each_vector(end - begin, [=]<typename V>(int64_t offset) {
        const int64_t i = begin + offset;
        store_as(grad_x + i, load_as<V>(y + i) <= 0 ? V{} : load_as<V>(grad_y + i));
      });
    } else {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) grad_x[i] = y[i] <= 0 ? T{0} : grad_y[i];
    }
  });
}

template void relu_forward_cpu(const float*, float*, int64_t);
template void relu_forward_cpu(const double*, double*, int64_t);
template void relu_forward_cpu(const Half*, Half*, int64_t);
template void relu_forward_cpu(const BFloat16*, BFloat16*, int64_t);
template void relu_backward_cpu(const float*, const float*, float*, int64_t);
template void relu_backward_cpu(const double*, const double*, double*, int64_t);
template void relu_backward_cpu(const Half*, const Half*, Half*, int64_t);
template void relu_backward_cpu(const BFloat16*, const BFloat16*, BFloat16*, int64_t);

}  // namespace engine::kernels
