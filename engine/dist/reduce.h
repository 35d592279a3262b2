#pragma once
// Element-wise reduction of several ranks' elements.

#include <span>

#include "engine/dist/communicator.h"

namespace engine {

/// target[i] = sources[0][i] op sources[1][i] ... in this order, as Collective defines it; `target` may be one of the
/// sources. An average divides by the number of sources. Only types that can be reduced.
void reduce_elements(DType dtype, ReduceOp op, std::span<const void* const> sources, void* target, int64_t count);

}  // namespace engine
