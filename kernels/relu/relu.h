#pragma once
// y = max(x, 0), element by element; NaN stays NaN, as in PyTorch. float, double, Half and BFloat16;
// threaded.

#include <cstdint>

namespace engine::kernels {

/// y is overwritten and may be x.
template <typename T>
void relu_forward_cpu(const T* x, T* y, int64_t count);

/// grad_x = grad_y where not y <= 0, else 0 (the gradient passes at NaN). y is the result of the forward pass. grad_x
/// is overwritten and may be y or grad_y.
template <typename T>
void relu_backward_cpu(const T* y, const T* grad_y, T* grad_x, int64_t count);

}  // namespace engine::kernels
