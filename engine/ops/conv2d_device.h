#pragma once
// Convolutions through the plans of an accelerator; shared by the operations that have one inside.

#include <functional>

#include "engine/core/tensor.h"
#include "kernels/conv2d/conv2d_device.h"

namespace engine {

/// Runs the plan of a key on the device and the stream of `like`, with scratch of its own.
void run_conv_plan(const Tensor& like, const kernels::ConvPlanKey& key, const kernels::ConvBuffers& buffers);

/// Sees the key of each plan that this thread runs from now on; empty: nobody looks.
using ConvPlanObserver = std::function<void(const kernels::ConvPlanKey& key)>;
void set_conv_plan_observer(ConvPlanObserver observer);

}  // namespace engine
