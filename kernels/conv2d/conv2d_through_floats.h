#pragma once
// Convolutions of 16-bit tensors for which there is no kernel: some pictures at a time are converted to floats, put
// through conv2d_*_fast, and the results rounded. Contracts as for the fast path in conv2d.h. T: Half or BFloat16.

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

template <typename T>
void conv2d_forward_through_floats(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape);
template <typename T>
void conv2d_backward_data_through_floats(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);
/// Writes no bias gradient.
template <typename T>
void conv2d_backward_weights_through_floats(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape);

}  // namespace engine::kernels
