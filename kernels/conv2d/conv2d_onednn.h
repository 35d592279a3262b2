#pragma once
// Convolutions through oneDNN's primitives on NHWC pictures. Contracts as for the fast path in conv2d.h.

#include <string>

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

void conv2d_forward_onednn(const float* x, const float* weight, const float* bias, float* y, const Conv2dShape& shape);
void conv2d_backward_data_onednn(const float* grad_y, const float* weight, float* grad_x, const Conv2dShape& shape);
void conv2d_backward_weights_onednn(const float* x, const float* grad_y, float* grad_weight, float* grad_bias,
                                    const Conv2dShape& shape);

/// oneDNN's implementation name ("jit:avx512_core", ...), or "reference" where it has no primitive. Creates and caches
/// the primitive.
std::string conv2d_onednn_implementation(const Conv2dShape& shape, ConvDirection direction);

}  // namespace engine::kernels
