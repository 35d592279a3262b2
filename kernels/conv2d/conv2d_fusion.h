#pragma once
// Which fused forms of a convolution a GPU has plans for. Found by asking cuDNN 9.19 for every convolution of
// ResNet-50 on descriptions of A100, H100, H200 and B200; tests/plans asks again wherever cuDNN is installed.

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

/// Whether the fusion makes sense for the direction, whatever the GPU: prologues in forward and (scale_bias_relu)
/// backward_weights, statistics in forward, the norm_backward family in backward_data.
bool conv_fusion_valid(ConvDirection direction, const ConvFusion& fusion);

/// When to take a fused form: never; where it saves time as far as known; wherever there is one.
enum class FusionPolicy { off, automatic, on };

struct FusionTarget {
  int sm_version = 0;          // 80, 90, 100: compute capability times 10
  bool deterministic = false;  // forms that sum with atomics do not count
  FusionPolicy policy = FusionPolicy::automatic;
};

/// Whether such a GPU is known to have a plan for the key's form; the policy does not matter. True for the plain form,
/// always. FP16 only, channels in multiples of 8, no groups, no dilation:
///   compute capability 8.x   prologue scale_bias_relu, epilogue statistics, both together; the norm_backward family
///   9.0                      statistics, alone and behind scale_bias_relu; behind the add_ prologues where the filter
///                            is 1x1 of stride 1; scale_bias_relu in backward_weights; norm_backward, and its add_
///                            relatives at stride 1; no tensor of 2^31 elements or more
///   10.x                     statistics alone, summed with atomics; the norm_backward family
/// statistics and prologues take filters of 1, 3 or 5.
bool conv_fusion_exists(const FusionTarget& target, const ConvPlanKey& key);

/// The key, or where its form does not exist or the policy is against it the richest one below that is left: without
/// prologue, without epilogue, plain. What is left out is the caller's to compute. The automatic policy takes the
/// norm_backward family on 9.0 only: elsewhere its workspace, an FP32 copy of the gradient, shows that it is two
/// kernels in one plan. Throws std::invalid_argument for a fusion that is not valid in its direction.
ConvPlanKey conv_fusion_choice(const FusionTarget& target, ConvPlanKey key);

}  // namespace engine::kernels
