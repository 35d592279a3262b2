#pragma once
// The element-wise part of SGD with momentum on the device, which LARS shares.

#include "kernels/common/values.h"

namespace engine::kernels {

struct MomentumStep {
  float lr;
  float gradient_factor;
  float decay;
  float momentum;
  bool nesterov;
  bool first_step;  // the momentum buffer holds nothing yet

  /// Updates kCount neighbouring elements; momentum_buffer (then momentum is 0) and copy may be null.
  template <int kCount, typename G, typename C>
  __device__ void apply(Count<kCount>, float* w, const G* gradient, float* momentum_buffer, C* copy) const {
    // All loads stand before the first use, so that none waits for another.
    Values<kCount> weights = load_values<kCount>(w);
    const Values<kCount> gradients = load_values<kCount>(gradient);
    Values<kCount> sums{};
    if (momentum_buffer != nullptr && !first_step) sums = load_values<kCount>(momentum_buffer);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float g = gradients.at[i] * gradient_factor + decay * weights.at[i];
      sums.at[i] = momentum * sums.at[i] + g;
      weights.at[i] -= lr * (nesterov ? g + momentum * sums.at[i] : sums.at[i]);
    }
    store_values(w, weights);
    if (momentum_buffer != nullptr) store_values(momentum_buffer, sums);
    if (copy != nullptr) store_values(copy, weights);
  }
};

/// Bytes that an update of one element moves, from its second step on.
template <template <typename, typename> typename Update, typename G, typename C>
int64_t momentum_step_bytes(const Update<G, C>& update) {
  const int64_t weights = 2 * sizeof(float), momentum = update.momentum_buffer != nullptr ? 2 * sizeof(float) : 0;
  return weights + momentum + int64_t{sizeof(G)} + (update.compute_copy != nullptr ? int64_t{sizeof(C)} : 0);
}

}  // namespace engine::kernels
