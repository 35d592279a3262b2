#include "kernels/common/parallel.h"
#include "kernels/sgd/sgd.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;

}  // namespace

template <typename T>
void sgd_step_cpu(const Sgd& spec, T* w, const T* grad, T* momentum_buffer, int64_t count) {
  const auto lr = static_cast<T>(spec.lr), momentum = static_cast<T>(spec.momentum);
  const auto decay = static_cast<T>(spec.weight_decay), scale = static_cast<T>(spec.grad_scale);
  const bool nesterov = spec.nesterov, first_step = spec.first_step;
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    if (spec.momentum == 0) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) w[i] -= lr * (grad[i] * scale + decay * w[i]);
      return;
    }
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = grad[i] * scale + decay * w[i];
      const T m = first_step ? g : momentum * momentum_buffer[i] + g;
      momentum_buffer[i] = m;
      w[i] -= lr * (nesterov ? g + momentum * m : m);
    }
  });
}

template void sgd_step_cpu(const Sgd&, float*, const float*, float*, int64_t);
template void sgd_step_cpu(const Sgd&, double*, const double*, double*, int64_t);

}  // namespace engine::kernels
