#pragma once
// avg_pool2d.h's contract on the device; sums are taken in float and rounded once. T: float, Half, BFloat16. Any
// alignment; 16 bytes at a time where the tensors are aligned to 16 bytes and channels are a multiple of 16 bytes. No
// aliasing. The same bits from run to run.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// x: [n, h, w, c]; y: [n, out_h, out_w, c], overwritten. Moves both once; windows that overlap read the same element
/// again, out of the caches.
template <typename T>
void avg_pool2d_forward_cuda(const Pool2dShape& shape, const T* x, T* y, cudaStream_t stream);

/// grad_y: [n, out_h, out_w, c]; grad_x: [n, h, w, c], overwritten. Moves both once; overlap as above.
template <typename T>
void avg_pool2d_backward_cuda(const Pool2dShape& shape, const T* grad_y, T* grad_x, cudaStream_t stream);

/// x: [n, spatial, c] with spatial = h * w > 0; y: [n, c], overwritten. Moves both once.
template <typename T>
void global_avg_pool_forward_cuda(const T* x, T* y, int64_t n, int64_t spatial, int64_t c, cudaStream_t stream);

/// grad_y: [n, c]; grad_x: [n, spatial, c], overwritten. Moves both once.
template <typename T>
void global_avg_pool_backward_cuda(const T* grad_y, T* grad_x, int64_t n, int64_t spatial, int64_t c,
                                   cudaStream_t stream);

}  // namespace engine::kernels
