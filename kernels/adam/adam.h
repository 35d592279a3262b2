#pragma once
// Adam (Kingma and Ba, 2015) as torch.optim.Adam computes it and, decoupled, AdamW (Loshchilov and Hutter, 2019) as
// torch.optim.AdamW does:
//   g = grad * grad_scale;  decoupled: w *= 1 - lr * weight_decay;  otherwise g += weight_decay * w
//   m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g * g
//   w -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// Elements are independent: a call serves any contiguous part of a flat buffer with one set of scalars. float and
// double; scalars are computed in double and rounded to T once; threaded; results do not depend on the number of
// threads.

#include <cstdint>

namespace engine::kernels {

struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW
  int64_t step = 1;        // of this update, from 1
  double grad_scale = 1;   // multiplies the gradient first: 1 / loss scale, and the clipping factor
};

/// w, exp_avg (m), exp_avg_sq (v): [count], updated; both averages start as zeros. grad: [count]. No aliasing.
template <typename T>
void adam_step_cpu(const Adam& spec, T* w, const T* grad, T* exp_avg, T* exp_avg_sq, int64_t count);

/// Gradients of 16 bits, and a copy of the weights in their type. G: Half or BFloat16. All [count], no aliasing.
template <typename G>
struct AdamNarrow {
  float* w = nullptr;  // updated
  const G* grad = nullptr;
  float* exp_avg = nullptr;     // updated
  float* exp_avg_sq = nullptr;  // updated
  G* copy = nullptr;            // overwritten with the new weights, rounded
  int64_t count = 0;
};

/// The same update in float, one pass over memory.
template <typename G>
void adam_step_cpu(const Adam& spec, const AdamNarrow<G>& parameters);

}  // namespace engine::kernels
