#pragma once
// Batch normalisation over n, h, w (Ioffe and Szegedy, 2015, with PyTorch's conventions), alone or fused with what
// follows it in a residual block.

#include "engine/core/tensor.h"

namespace engine {

/// Parameters and statistics of one layer, [c] each; the running ones are updated in training.
struct BatchNormState {
  Tensor weight;
  Tensor bias;
  Tensor running_mean;
  Tensor running_var;
};

struct BatchNormOptions {
  bool training = true;
  bool tracked = true;  // training moves the running statistics
  bool relu = false;
  double momentum = 0.1;
  double eps = 1e-5;
};

/// x [..., c] -> y of the same shape: relu(bn(x) + residual) with the parts that are asked for; residual is like x or
/// undefined. The tape keeps x, the batch's statistics and, with ReLU behind a residual, y. Throws engine::Error
/// "[batch_norm] ..." for shapes that do not fit, and in training for a single value per channel, which has no
/// variance.
Tensor batch_norm(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options = {},
                  const Tensor& residual = Tensor());

/// The checks that batch_norm makes, for operations it is fused into.
void check_batch_norm(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                      const Tensor& residual);

}  // namespace engine
