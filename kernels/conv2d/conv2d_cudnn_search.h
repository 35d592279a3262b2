#pragma once

#include "kernels/conv2d/conv2d_cudnn_graphs.h"

namespace engine::kernels {

/// Runs every way that the graph has on scratch memory of the current device and returns the fastest (the best of a
/// few runs by the device's clock); -1 where none ran. Waits for the device. Throws CudaError where the scratch memory
/// cannot be had.
int64_t conv2d_fastest(ConvGraph& graph, const ConvPlanKey& key, int device);

}  // namespace engine::kernels
