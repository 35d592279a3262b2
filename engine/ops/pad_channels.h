#pragma once
// Further channels of zeros behind the innermost axis.

#include "engine/core/tensor.h"

namespace engine {

/// x [..., c] -> [..., channels], zeros from c on; x itself where channels is c. Throws engine::Error
/// "[pad_channels] ..." for fewer channels than x has.
Tensor pad_channels(const Tensor& x, int64_t channels);

}  // namespace engine
