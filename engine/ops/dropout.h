#pragma once
// Dropout (Srivastava et al., 2014).

#include "engine/core/tensor.h"

namespace engine {

struct DropoutOptions {
  double probability = 0.5;  // of dropping, in [0, 1]
  bool training = true;      // otherwise the identity
  uint64_t seed = 0;
  uint64_t offset = 0;  // tells apart calls with the same seed
};

/// x / (1 - probability) where kept, 0 where dropped. The mask is a function of (seed, offset, element), so backward
/// computes it again and the tape keeps nothing. Throws engine::Error for a probability outside [0, 1].
Tensor dropout(const Tensor& x, const DropoutOptions& options);

}  // namespace engine
