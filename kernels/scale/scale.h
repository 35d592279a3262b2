#pragma once
// An array in device memory times a number that lives there, too, so that the host need not know it (a loss scale, an
// upstream gradient). T: float, Half, BFloat16. Any alignment; 16 bytes at a time where x and y are aligned to 16
// bytes.

#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

/// y = x * *factor, in float, rounded once (so infinite where that is beyond T). y is overwritten and may be x; factor
/// is in device memory and no part of y. Moves 2 * count * sizeof(T) bytes.
template <typename T>
void scale_cuda(const T* x, const float* factor, T* y, int64_t count, cudaStream_t stream);

}  // namespace engine::kernels
