#pragma once
// Mean over windows of an NHWC tensor, and over whole pictures. Padding counts as zeros in the mean (PyTorch's default,
// count_include_pad). float, double, Half and BFloat16 (summed in float, rounded once); threaded; results do not depend
// on the number of threads. No aliasing.

#include <cstdint>

#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// x: [n, h, w, c]; y: [n, out_h, out_w, c], overwritten.
template <typename T>
void avg_pool2d_forward_cpu(const Pool2dShape& shape, const T* x, T* y);

/// grad_y: [n, out_h, out_w, c]; grad_x: [n, h, w, c], overwritten.
template <typename T>
void avg_pool2d_backward_cpu(const Pool2dShape& shape, const T* grad_y, T* grad_x);

/// x: [n, spatial, c] with spatial = h * w; y: [n, c], overwritten.
template <typename T>
void global_avg_pool_forward_cpu(const T* x, T* y, int64_t n, int64_t spatial, int64_t c);

/// grad_y: [n, c]; grad_x: [n, spatial, c], overwritten.
template <typename T>
void global_avg_pool_backward_cpu(const T* grad_y, T* grad_x, int64_t n, int64_t spatial, int64_t c);

}  // namespace engine::kernels
