#pragma once
// Maximum over windows of an NHWC tensor. Of equal values the first in row-major order wins; a NaN wins over everything
// (the last one of a window), as in PyTorch. `_cpu` is the reference, `_fast` the same contract for float, bit for bit,
// and for Half and BFloat16, whose gradients are summed in float and rounded once.

#include <cstdint>

#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// x: [n, h, w, c]; y: [n, out_h, out_w, c], overwritten; index: like y, the winner's place in its window
/// (row * kernel_w + column, so kernel_h * kernel_w <= 256), or null where no backward pass follows. No aliasing.
template <typename T>
void max_pool2d_forward_cpu(const Pool2dShape& shape, const T* x, T* y, uint8_t* index);
template <typename T>
void max_pool2d_forward_fast(const Pool2dShape& shape, const T* x, T* y, uint8_t* index);

/// grad_y and index: [n, out_h, out_w, c]; grad_x: [n, h, w, c], overwritten; an element that won several windows gets
/// their sum, added in the windows' order. No aliasing.
template <typename T>
void max_pool2d_backward_cpu(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x);
template <typename T>
void max_pool2d_backward_fast(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x);

}  // namespace engine::kernels
