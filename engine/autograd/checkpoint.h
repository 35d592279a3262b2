#pragma once
// Activation checkpointing: a part of the network keeps its inputs alone, and its backward computes the rest again
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; the semantics are those of
// torch.utils.checkpoint with use_reentrant=False).

#include <functional>
#include <vector>

#include "engine/core/tensor.h"

namespace engine {

using CheckpointFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// function(inputs), and a single node on the tape that keeps `inputs` and `function`. Its backward calls `function`
/// again, once, with recording on, and runs the tape that this leaves. Parameters that the function reads get their
/// gradients as without it, in the same order of summation, and their ready hooks run as soon as each is complete.
///
/// The function must do the same both times: random numbers come from counters (engine/core/random.h, ops/dropout.h),
/// and whoever changes something that lasts, such as running statistics, leaves it alone where recomputing() holds. It
/// may use checkpoint() itself. Inputs may be undefined. Where nothing is recorded it is just called.
/// Backward throws engine::Error where the second call's results have other shapes or types than the first's.
std::vector<Tensor> checkpoint(const CheckpointFunction& function, const std::vector<Tensor>& inputs);

/// The same for one tensor in, one out.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input);

/// Whether this thread is inside such a second call.
bool recomputing();

}  // namespace engine
