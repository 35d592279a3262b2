#pragma once
// y = max(x, 0).

#include "engine/core/tensor.h"

namespace engine {

/// NaN stays NaN; the gradient at 0 is 0. The tape keeps y.
Tensor relu(const Tensor& x);

}  // namespace engine
