#include "kernels/add/add.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

}  // namespace

// `omp simd` because results may be in place of an operand: same index, so lanes do not depend on each other.
template <typename T>
void add_forward_cpu(const T* a, const T* b, T* y, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    if constexpr (kNarrow<T>) {
      for_each_vector(end - begin, [=]<typename V>(int64_t offset) {
        const int64_t i = begin + offset;
        store_as(y + i, load_as<V>(a + i) + load_as<V>(b + i));
      });
    } else {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
    }
  });
}

template <typename T>
void add_accumulate_cpu(const T* src, T* dst, int64_t count) {
  add_forward_cpu(dst, src, dst, count);
}

template void add_forward_cpu(const float*, const float*, float*, int64_t);
template void add_forward_cpu(const double*, const double*, double*, int64_t);
template void add_forward_cpu(const Half*, const Half*, Half*, int64_t);
template void add_forward_cpu(const BFloat16*, const BFloat16*, BFloat16*, int64_t);
template void add_accumulate_cpu(const float*, float*, int64_t);
template void add_accumulate_cpu(const double*, double*, int64_t);
template void add_accumulate_cpu(const Half*, Half*, int64_t);
template void add_accumulate_cpu(const BFloat16*, BFloat16*, int64_t);

}  // namespace engine::kernels
