#pragma once
// Plans of the project's own convolution kernels (conv2d_direct_cuda.h), for builds without cuDNN. In all builds, so
// that the emulated device runs these kernels in tests.

#include <memory>

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

/// "direct"; the same results at every run. TF32 is computed as FP32. Throws LibraryError for fused forms, which need
/// cuDNN, and std::invalid_argument for a shape or fusion that makes no sense or is too large (require_direct).
std::unique_ptr<ConvPlan> make_direct_plan(const ConvPlanKey& key);

}  // namespace engine::kernels
