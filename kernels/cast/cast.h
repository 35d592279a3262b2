#pragma once
// Conversion of element types: from double, float, Half, BFloat16 and uint8_t to double, float, Half and BFloat16.
// Rounds once, to nearest, ties to even (from double too, where going through float would round twice). Threaded.

#include <cstdint>

#include "kernels/common/half.h"

namespace engine::kernels {

/// y is overwritten. y may be x only where both types have the same size.
template <typename From, typename To>
void cast_cpu(const From* x, To* y, int64_t count);

}  // namespace engine::kernels
