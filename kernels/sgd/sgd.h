#pragma once
// Stochastic gradient descent with momentum as torch.optim.SGD (dampening 0) computes it:
//   g = grad * grad_scale + weight_decay * w;  m = momentum * m + g (first step: m = g)
//   w -= lr * (nesterov ? g + momentum * m : m), or lr * g with momentum 0
// Elements are independent: a call serves any contiguous part of a flat buffer with one set of scalars. float and
// double; scalars are rounded to T once; threaded; results do not depend on the number of threads.

#include <cstdint>

namespace engine::kernels {

struct Sgd {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  // the momentum buffer holds nothing yet
  double grad_scale = 1;    // multiplies the gradient first: 1 / loss scale, and the clipping factor
};

/// w: [count], updated; grad: [count]; momentum_buffer: [count], updated, null with momentum 0. No aliasing.
template <typename T>
void sgd_step_cpu(const Sgd& spec, T* w, const T* grad, T* momentum_buffer, int64_t count);

/// Gradients of 16 bits, and a copy of the weights in their type. G: Half or BFloat16. All [count], no aliasing.
template <typename G>
struct SgdNarrow {
  float* w = nullptr;  // updated
  const G* grad = nullptr;
  float* momentum_buffer = nullptr;  // updated; null with momentum 0
  G* copy = nullptr;                 // overwritten with the new weights, rounded
  int64_t count = 0;
};

/// The same update in float, one pass over memory.
template <typename G>
void sgd_step_cpu(const Sgd& spec, const SgdNarrow<G>& parameters);

}  // namespace engine::kernels
