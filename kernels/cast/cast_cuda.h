#pragma once
// cast.h's contract on the device, between float, Half and BFloat16 (all nine pairs). Rounds once, to nearest, ties to
// even; NaN stays NaN (its payload may change). Any alignment; 16 bytes of the wider type at a time where both pointers
// are aligned to 16 bytes.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/half.h"

namespace engine::kernels {

/// y is overwritten. y may be x only where both types have the same size. Moves count * (sizeof(From) + sizeof(To))
/// bytes.
template <typename From, typename To>
void cast_cuda(const From* x, To* y, int64_t count, cudaStream_t stream);

}  // namespace engine::kernels
