#pragma once
// Sum of two tensors.

#include "engine/core/tensor.h"

namespace engine {

/// a + b, the same shape and type. The tape keeps neither.
Tensor add(const Tensor& a, const Tensor& b);

}  // namespace engine
