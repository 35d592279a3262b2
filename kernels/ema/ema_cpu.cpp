#include "kernels/common/parallel.h"
#include "kernels/ema/ema.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

}  // namespace

template <typename T>
void ema_update_cpu(double decay, const T* w, T* average, int64_t count) {
  const auto kept = static_cast<T>(decay), taken = static_cast<T>(1 - decay);
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) average[i] = kept * average[i] + taken * w[i];
  });
}

template void ema_update_cpu(double, const float*, float*, int64_t);
template void ema_update_cpu(double, const double*, double*, int64_t);

}  // namespace engine::kernels
