#include "kernels/lars/lars.h"
#include "kernels/sgd/sgd.h"

namespace engine::kernels {

double lars_ratio(double w_norm, double grad_norm, double trust_coefficient, double weight_decay) {
  if (w_norm == 0 || grad_norm == 0) return 1;
  return trust_coefficient * w_norm / (grad_norm + weight_decay * w_norm);
}

// SGD does the work: ratio * (g + decay * w) is its gradient with both scalars multiplied by the ratio.
template <typename T>
void lars_step_cpu(const Lars& spec, T* w, const T* grad, T* momentum_buffer, int64_t count) {
  const Sgd sgd{.lr = spec.lr,
                .momentum = spec.momentum,
                .weight_decay = spec.ratio * spec.weight_decay,
                .nesterov = spec.nesterov,
                .first_step = spec.first_step,
                .grad_scale = spec.ratio * spec.grad_scale};
  sgd_step_cpu(sgd, w, grad, momentum_buffer, count);
}

template void lars_step_cpu(const Lars&, float*, const float*, float*, int64_t);
template void lars_step_cpu(const Lars&, double*, const double*, double*, int64_t);

}  // namespace engine::kernels
