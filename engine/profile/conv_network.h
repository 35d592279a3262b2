#pragma once
// The convolutions of a model with what stands before and behind each, which decides how they can be fused.

#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/ops/conv_forms.h"

namespace engine {

struct NetworkConv {
  std::string name;
  kernels::Conv2dShape shape;  // of one picture
  ConvInput input = ConvInput::stored;
  std::vector<kernels::Conv2dShape> sources;  // likewise; of the convolutions whose norms make up the input, in order
  bool norm_behind = false;
};

/// Read off the layers' order and torchvision's names: P.convN reads P.bn(N-1); P.conv1 of a block reads the block
/// before.
std::vector<NetworkConv> conv_network(const std::vector<LayerDescription>& layers);

/// What training_forms() decides on, for a batch of `batch` pictures: norms whose convolutions leave no sums on this
/// GPU are computed apart.
ConvSite training_site(const NetworkConv& conv, int64_t batch, kernels::ElementType type,
                       const kernels::FusionTarget& target);

/// The form that a direction takes in training.
kernels::ConvPlanKey training_key(const NetworkConv& conv, kernels::ConvDirection direction, int64_t batch,
                                  kernels::ElementType type, const kernels::FusionTarget& target);

}  // namespace engine
