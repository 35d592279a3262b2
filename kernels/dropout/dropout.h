#pragma once
// Dropout (Srivastava et al., 2014), scaled in training: y = x / (1 - p) where kept, 0 where dropped (also for x that
// is not finite). Element i is kept where the uniform number of word i % 4 of Philox block (key seed, counter {i / 4,
// offset}) is at least p. So the mask needs no memory: the backward pass computes it again. float, double, Half and
// BFloat16; threaded; results do not depend on the number of threads.

#include <cstdint>

namespace engine::kernels {

struct Dropout {
  double probability = 0.5;  // p, in [0, 1]: of dropping. 0 copies bit for bit, 1 gives zeros
  uint64_t seed = 0;
  uint64_t offset = 0;  // tells apart calls with the same seed: layer, step
};

/// y is overwritten and may be x.
template <typename T>
void dropout_forward_cpu(const Dropout& spec, const T* x, T* y, int64_t count);

/// spec as in the forward pass. grad_x is overwritten and may be grad_y.
template <typename T>
void dropout_backward_cpu(const Dropout& spec, const T* grad_y, T* grad_x, int64_t count);

}  // namespace engine::kernels
