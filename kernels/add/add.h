#pragma once
// Sums of two tensors of the same shape, element by element. float, double, Half and BFloat16 (summed in float,
// rounded once); threaded.

#include <cstdint>

namespace engine::kernels {

/// y = a + b. y is overwritten and may be a or b.
template <typename T>
void add_forward_cpu(const T* a, const T* b, T* y, int64_t count);

/// dst += src. src may be dst.
template <typename T>
void add_accumulate_cpu(const T* src, T* dst, int64_t count);

}  // namespace engine::kernels
