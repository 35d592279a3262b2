#pragma once
// The convolutions of a model with what stands before and behind each, which decides how they can be fused.

#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "kernels/conv2d/conv2d_fusion.h"

namespace engine {

/// What a convolution reads.
enum class ConvInput {
  picture,         // no gradient is needed
  stored,          // a tensor that exists anyway
  activation,      // relu(batch norm), read by this convolution alone
  block_end,       // relu(batch norm + shortcut), where the shortcut is the block's input
  dual_block_end,  // relu(batch norm + batch norm)
};

struct NetworkConv {
  std::string name;
  kernels::Conv2dShape shape;  // of one picture
  ConvInput input = ConvInput::stored;
  bool norm_behind = false;
};

/// Read off the layers' order and torchvision's names: P.convN reads P.bn(N-1); P.conv1 of a block reads the block
/// before.
std::vector<NetworkConv> conv_network(const std::vector<LayerDescription>& layers);

/// The form that a direction takes in training with a batch of `batch` pictures: all that what stands around it allows,
/// then what the GPU and the policy allow (conv_fusion_choice).
kernels::ConvPlanKey training_key(const NetworkConv& conv, kernels::ConvDirection direction, int64_t batch,
                                  kernels::ElementType type, const kernels::FusionTarget& target);

}  // namespace engine
