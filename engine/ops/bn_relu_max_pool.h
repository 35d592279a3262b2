#pragma once
// Batch norm, ReLU and max pool in one operation, as the stem of a ResNet has them.

#include "engine/ops/batch_norm.h"
#include "engine/ops/pool2d.h"

namespace engine {

/// max_pool2d(relu(batch_norm(x))) for x [n, h, w, c]; options.relu is taken as set. In training the normalised
/// pictures are never stored: the tape keeps x, the batch's statistics and one byte per output. In evaluation the three
/// operations run one after another. Throws as they do.
Tensor bn_relu_max_pool(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                        const Pool2dOptions& pool);

}  // namespace engine
