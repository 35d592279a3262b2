#pragma once
// Convolutions through oneDNN's primitives on NHWC pictures. Contracts as for the fast path in conv2d.h.

#include <string>

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

// All three return false, and write nothing, where oneDNN has no primitive for a shape or, for BFloat16, plain loops
// alone. T: float or BFloat16; products of the latter are summed in float.

template <typename T>
bool conv2d_forward_onednn(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape);
template <typename T>
bool conv2d_backward_data_onednn(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);
/// Writes no bias gradient.
template <typename T>
bool conv2d_backward_weights_onednn(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape);

/// oneDNN's implementation name ("jit:avx512_core", ...), or "reference" where it has no primitive. Creates and caches
/// the primitive.
template <typename T>
std::string conv2d_onednn_implementation(const Conv2dShape& shape, ConvDirection direction);

}  // namespace engine::kernels
