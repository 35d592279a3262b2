#pragma once
// add.h's contract on the device; sums are taken in float and rounded once. T: float, Half, BFloat16. Any alignment; 16
// bytes at a time where all pointers are aligned to 16 bytes. Both move 3 * count * sizeof(T) bytes.

#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

/// y = a + b. y is overwritten and may be a or b.
template <typename T>
void add_forward_cuda(const T* a, const T* b, T* y, int64_t count, cudaStream_t stream);

/// dst += src. src may be dst.
template <typename T>
void add_accumulate_cuda(const T* src, T* dst, int64_t count, cudaStream_t stream);

}  // namespace engine::kernels
