#include <cmath>

#include "kernels/adam/adam.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 13;

}  // namespace

template <typename T>
void adam_step_cpu(const Adam& spec, T* w, const T* grad, T* exp_avg, T* exp_avg_sq, int64_t count) {
  const auto step = static_cast<double>(spec.step);
  const auto scale = static_cast<T>(spec.grad_scale);
  const auto shrink = static_cast<T>(spec.decoupled ? 1 - spec.lr * spec.weight_decay : 1);
  const auto decay = static_cast<T>(spec.decoupled ? 0 : spec.weight_decay);
  const auto gain1 = static_cast<T>(1 - spec.beta1);
  const auto beta2 = static_cast<T>(spec.beta2), gain2 = static_cast<T>(1 - spec.beta2);
  const auto step_size = static_cast<T>(spec.lr / (1 - std::pow(spec.beta1, step)));
  const auto correction = static_cast<T>(std::sqrt(1 - std::pow(spec.beta2, step)));
  const auto eps = static_cast<T>(spec.eps);
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = grad[i] * scale + decay * w[i];
      const T m = exp_avg[i] + gain1 * (g - exp_avg[i]);
      const T v = beta2 * exp_avg_sq[i] + gain2 * g * g;
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      w[i] = w[i] * shrink - step_size * (m / (std::sqrt(v) / correction + eps));
    }
  });
}

template void adam_step_cpu(const Adam&, float*, const float*, float*, float*, int64_t);
template void adam_step_cpu(const Adam&, double*, const double*, double*, double*, int64_t);

}  // namespace engine::kernels
