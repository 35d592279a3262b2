#include "kernels/common/half.h"
#include "kernels/lars/lars.h"

namespace engine::kernels {

double lars_ratio(double w_norm, double grad_norm, double trust_coefficient, double weight_decay) {
  if (w_norm == 0 || grad_norm == 0) return 1;
  return trust_coefficient * w_norm / (grad_norm + weight_decay * w_norm);
}

namespace {

// SGD does the work: ratio * (g + decay * w) is its gradient with both scalars multiplied by the ratio.
Sgd sgd_of(const Lars& spec) {
  return {.lr = spec.lr,
          .momentum = spec.momentum,
          .weight_decay = spec.ratio * spec.weight_decay,
          .nesterov = spec.nesterov,
          .first_step = spec.first_step,
          .grad_scale = spec.ratio * spec.grad_scale};
}

}  // namespace

template <typename T>
void lars_step_cpu(const Lars& spec, T* w, const T* grad, T* momentum_buffer, int64_t count) {
  sgd_step_cpu(sgd_of(spec), w, grad, momentum_buffer, count);
}

template <typename G>
void lars_step_cpu(const Lars& spec, const SgdNarrow<G>& parameters) {
  sgd_step_cpu(sgd_of(spec), parameters);
}

template void lars_step_cpu(const Lars&, float*, const float*, float*, int64_t);
template void lars_step_cpu(const Lars&, double*, const double*, double*, int64_t);
template void lars_step_cpu(const Lars&, const SgdNarrow<Half>&);
template void lars_step_cpu(const Lars&, const SgdNarrow<BFloat16>&);

}  // namespace engine::kernels
