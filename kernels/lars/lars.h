#pragma once
// LARS (You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017): SGD with momentum whose
// gradient is scaled for each tensor by
//   ratio = trust_coefficient * |w| / (|g| + weight_decay * |w|), or 1 where |w| or |g| is 0
//   d = ratio * (g + weight_decay * w), g = grad * grad_scale;  m = momentum * m + d (first step: m = d)
//   w -= lr * (nesterov ? d + momentum * m : m)
// The learning rate is applied behind the momentum, as in torch.optim.SGD. Whether a tensor gets a ratio and decay at
// all (one-dimensional ones do not by default) is the caller's decision. float and double; threaded; results do not
// depend on the number of threads.

#include <cstdint>

#include "kernels/sgd/sgd.h"

namespace engine::kernels {

struct Lars {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  // the momentum buffer holds nothing yet
  double grad_scale = 1;    // multiplies the gradient first: 1 / loss scale, and the clipping factor
  double ratio = 1;
};

/// The ratio for the norms of a whole tensor and of its gradient, the latter with grad_scale in it.
double lars_ratio(double w_norm, double grad_norm, double trust_coefficient, double weight_decay);

/// One tensor, or a contiguous part of it with the whole tensor's ratio. w: [count], updated; grad: [count];
/// momentum_buffer: [count], updated, null with momentum 0. No aliasing.
template <typename T>
void lars_step_cpu(const Lars& spec, T* w, const T* grad, T* momentum_buffer, int64_t count);

/// The same in float for gradients of 16 bits, with a copy of the weights in their type. G: Half or BFloat16.
template <typename G>
void lars_step_cpu(const Lars& spec, const SgdNarrow<G>& parameters);

}  // namespace engine::kernels
