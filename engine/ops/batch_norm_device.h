#pragma once
// Batch norm, alone and with what follows it, by the kernels of an accelerator; called by batch_norm() and
// bn_relu_max_pool() after their checks.

#include "engine/ops/batch_norm.h"
#include "kernels/common/pool2d_shape.h"

namespace engine {

/// batch_norm() for x on an accelerator.
Tensor batch_norm_on_device(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                            const Tensor& residual);

/// bn_relu_max_pool() in training for x on an accelerator.
Tensor bn_relu_max_pool_on_device(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                                  const kernels::Pool2dShape& shape);

}  // namespace engine
