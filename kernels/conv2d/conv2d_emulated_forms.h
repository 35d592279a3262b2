#pragma once
// Convolutions with their fused forms as compositions of plain parts, on the CPU: what the emulated device runs and
// what a GPU's fused plans are compared with. Buffers as for ConvPlan::run, in memory that the host may touch; float
// arithmetic, per-channel sums in double, each result rounded once to its storage type. Statistics and sums are taken
// from the rounded values. At a NaN the ReLU passes values and gradients on.

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

void conv2d_forward_form(const ConvPlanKey& key, const ConvBuffers& buffers);
void conv2d_backward_data_form(const ConvPlanKey& key, const ConvBuffers& buffers);
void conv2d_backward_weights_form(const ConvPlanKey& key, const ConvBuffers& buffers);

}  // namespace engine::kernels
