#pragma once
// Convolutions as products of patches with packed filters (gemm.h), for shapes without groups and dilation: "gemm" in
// conv2d_select.h. Contracts as for the fast path in conv2d.h. The pictures are read in place, as blocks of patches
// that stay in a core's cache; nothing of the size of a tensor is stored. T: float, Half or BFloat16; 16-bit values
// become floats as blocks are copied, and results are rounded as they leave the cache.

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

/// Whether the three functions below take the shape.
bool conv2d_gemm_takes(const Conv2dShape& shape);

template <typename T>
void conv2d_forward_gemm(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape);

/// For each phase of the stride a product of grad_y's patches with the taps that meet the phase.
template <typename T>
void conv2d_backward_data_gemm(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);

/// Writes no bias gradient. Blocks of the result are shared out between threads, or rows where the result is small;
/// partial sums of the latter are added in a fixed order.
template <typename T>
void conv2d_backward_weights_gemm(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape);

}  // namespace engine::kernels
