#pragma once
// max_pool2d.h's contract on the device, the same winners. T: float, Half, BFloat16. Any alignment; 16 bytes at a time
// where the tensors are aligned to 16 bytes and channels are a multiple of 16 bytes. No aliasing. No atomics: the
// backward pass gathers.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// x: [n, h, w, c]; y: [n, out_h, out_w, c], overwritten; index: like y, the winner's place in its window
/// (row * kernel_w + column, so kernel_h * kernel_w <= 256), overwritten, or null where no backward pass follows. A
/// winning NaN stays NaN (its payload may change). Moves x and y once, 1 byte an output for the index; windows that
/// overlap read the same element again, out of the caches.
template <typename T>
void max_pool2d_forward_cuda(const Pool2dShape& shape, const T* x, T* y, uint8_t* index, cudaStream_t stream);

/// grad_y and index: [n, out_h, out_w, c]; grad_x: [n, h, w, c], overwritten; an element that won several windows gets
/// their sum, added in the windows' order in float and rounded once. Moves all three once; overlap as above.
template <typename T>
void max_pool2d_backward_cuda(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x,
                              cudaStream_t stream);

}  // namespace engine::kernels
