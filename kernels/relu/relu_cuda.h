#pragma once
// relu.h's contract on the device: y = max(x, 0), NaN stays NaN. T: float, Half, BFloat16. Any alignment; 16 bytes at a
// time where all pointers are aligned to 16 bytes. Bytes moved: each operand once.

#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

/// y is overwritten and may be x. Moves 2 * count * sizeof(T) bytes.
template <typename T>
void relu_forward_cuda(const T* x, T* y, int64_t count, cudaStream_t stream);

/// grad_x = grad_y where not y <= 0, else 0. y is the result of the forward pass. grad_x is overwritten and may be y or
/// grad_y. Moves 3 * count * sizeof(T) bytes.
template <typename T>
void relu_backward_cuda(const T* y, const T* grad_y, T* grad_x, int64_t count, cudaStream_t stream);

}  // namespace engine::kernels
