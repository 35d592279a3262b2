#include <array>

#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/sgd/sgd.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;

template <typename T>
struct Scalars {
  explicit Scalars(const Sgd& spec)
      : lr(static_cast<T>(spec.lr)),
        momentum(static_cast<T>(spec.momentum)),
        decay(static_cast<T>(spec.weight_decay)),
        scale(static_cast<T>(spec.grad_scale)),
        nesterov(spec.nesterov),
        first_step(spec.first_step) {}

  void update(T* w, const T* grad, T* momentum_buffer, int64_t count) const {
    const T rate = lr, kept = momentum, shrink = decay, factor = scale;
    const bool ahead = nesterov, first = first_step;
    if (momentum_buffer == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) w[i] -= rate * (grad[i] * factor + shrink * w[i]);
      return;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T g = grad[i] * factor + shrink * w[i];
      const T m = first ? g : kept * momentum_buffer[i] + g;
      momentum_buffer[i] = m;
      w[i] -= rate * (ahead ? g + kept * m : m);
    }
  }

  T lr, momentum, decay, scale;
  bool nesterov, first_step;
};

}  // namespace

template <typename T>
void sgd_step_cpu(const Sgd& spec, T* w, const T* grad, T* momentum_buffer, int64_t count) {
  const Scalars<T> scalars(spec);
  T* sums = spec.momentum == 0 ? nullptr : momentum_buffer;
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    scalars.update(w + begin, grad + begin, sums == nullptr ? nullptr : sums + begin, end - begin);
  });
}

template <typename G>
void sgd_step_cpu(const Sgd& spec, const SgdNarrow<G>& parameters) {
  const Scalars<float> scalars(spec);
  float* sums = spec.momentum == 0 ? nullptr : parameters.momentum_buffer;
  parallel_for(parameters.count, kGrain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kPiece = 1024;
    std::array<float, kPiece> grad;
    for (int64_t first = begin; first < end; first += kPiece) {
      const int64_t count = std::min(kPiece, end - first);
      float* w = parameters.w + first;
      widen(parameters.grad + first, grad.data(), count);
      scalars.update(w, grad.data(), sums == nullptr ? nullptr : sums + first, count);
      narrow(w, parameters.copy + first, count);
    }
  });
}

template void sgd_step_cpu(const Sgd&, float*, const float*, float*, int64_t);
template void sgd_step_cpu(const Sgd&, double*, const double*, double*, int64_t);
template void sgd_step_cpu(const Sgd&, const SgdNarrow<Half>&);
template void sgd_step_cpu(const Sgd&, const SgdNarrow<BFloat16>&);

}  // namespace engine::kernels
