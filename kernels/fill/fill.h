#pragma once
// A constant written to every element of an array in device memory. T: float, Half, BFloat16. Any alignment; 16 bytes
// at a time where y is aligned to 16 bytes. (Zeros alone are cudaMemsetAsync's job.)

#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

/// y = value rounded to T; overwritten. Moves count * sizeof(T) bytes.
template <typename T>
void fill_cuda(float value, T* y, int64_t count, cudaStream_t stream);

}  // namespace engine::kernels
