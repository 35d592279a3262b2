#pragma once
// Views that gradients flow through; no element is copied forward, nor backward where the gradient is contiguous.

#include "engine/core/tensor.h"

namespace engine {

/// The same elements in another shape of as many; x contiguous.
Tensor reshape(const Tensor& x, const Shape& shape);

/// [n, ...] -> [n, rest]
Tensor flatten(const Tensor& x);

/// Two axes exchanged; the result is not contiguous.
Tensor transpose(const Tensor& x, int a, int b);

/// Indices [begin, begin + length) of the outermost axis.
Tensor narrow(const Tensor& x, int64_t begin, int64_t length);

}  // namespace engine
