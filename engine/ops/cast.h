#pragma once
// Change of the element type.

#include "engine/core/tensor.h"

namespace engine {

/// x as `dtype`, rounded to nearest, ties to even; x itself where it has that type. From f64, f32, f16, bf16 and u8 to
/// the floating types. The gradient is cast back; the tape keeps nothing.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace engine
