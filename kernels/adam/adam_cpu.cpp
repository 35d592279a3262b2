#include <array>
#include <cmath>

#include "kernels/adam/adam.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 13;

template <typename T>
struct Scalars {
  explicit Scalars(const Adam& spec)
      : scale(static_cast<T>(spec.grad_scale)),
        shrink(static_cast<T>(spec.decoupled ? 1 - spec.lr * spec.weight_decay : 1)),
        decay(static_cast<T>(spec.decoupled ? 0 : spec.weight_decay)),
        gain1(static_cast<T>(1 - spec.beta1)),
        beta2(static_cast<T>(spec.beta2)),
        gain2(static_cast<T>(1 - spec.beta2)),
        step_size(static_cast<T>(spec.lr / (1 - std::pow(spec.beta1, static_cast<double>(spec.step))))),
        correction(static_cast<T>(std::sqrt(1 - std::pow(spec.beta2, static_cast<double>(spec.step))))),
        eps(static_cast<T>(spec.eps)) {}

  void update(T* w, const T* grad, T* exp_avg, T* exp_avg_sq, int64_t count) const {
    const Scalars s = *this;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T g = grad[i] * s.scale + s.decay * w[i];
      const T m = exp_avg[i] + s.gain1 * (g - exp_avg[i]);
      const T v = s.beta2 * exp_avg_sq[i] + s.gain2 * g * g;
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      w[i] = w[i] * s.shrink - s.step_size * (m / (std::sqrt(v) / s.correction + s.eps));
    }
  }

  T scale, shrink, decay, gain1, beta2, gain2, step_size, correction, eps;
};

}  // namespace

template <typename T>
void adam_step_cpu(const Adam& spec, T* w, const T* grad, T* exp_avg, T* exp_avg_sq, int64_t count) {
  const Scalars<T> scalars(spec);
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    scalars.update(w + begin, grad + begin, exp_avg + begin, exp_avg_sq + begin, end - begin);
  });
}

template <typename G>
void adam_step_cpu(const Adam& spec, const AdamNarrow<G>& parameters) {
  const Scalars<float> scalars(spec);
  parallel_for(parameters.count, kGrain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kPiece = 1024;
    std::array<float, kPiece> grad;
    for (int64_t first = begin; first < end; first += kPiece) {
      const int64_t count = std::min(kPiece, end - first);
      float* w = parameters.w + first;
      widen(parameters.grad + first, grad.data(), count);
      scalars.update(w, grad.data(), parameters.exp_avg + first, parameters.exp_avg_sq + first, count);
      narrow(w, parameters.copy + first, count);
    }
  });
}

template void adam_step_cpu(const Adam&, float*, const float*, float*, float*, int64_t);
template void adam_step_cpu(const Adam&, double*, const double*, double*, double*, int64_t);
template void adam_step_cpu(const Adam&, const AdamNarrow<Half>&);
template void adam_step_cpu(const Adam&, const AdamNarrow<BFloat16>&);

}  // namespace engine::kernels
