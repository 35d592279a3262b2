#pragma once
// Sums of gradients.

#include "engine/core/tensor.h"

namespace engine {

/// target += gradient; the same shape and type, target contiguous.
void accumulate(const Tensor& target, const Tensor& gradient);

/// first + second, in first's memory where nobody else has it.
Tensor accumulated(Tensor first, const Tensor& second);

}  // namespace engine
