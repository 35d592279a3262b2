#pragma once
// A vector added to each row of [rows, channels]. float and double; threaded; results do not depend on the number of
// threads.

#include <cstdint>

namespace engine::kernels {

/// y = x + bias, bias: [channels]. y is overwritten and may be x.
template <typename T>
void bias_forward_cpu(const T* x, const T* bias, T* y, int64_t rows, int64_t channels);

/// grad_bias: [channels], overwritten with the sum of grad_y over rows, accumulated in double.
template <typename T>
void bias_backward_cpu(const T* grad_y, T* grad_bias, int64_t rows, int64_t channels);

}  // namespace engine::kernels
