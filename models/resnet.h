#pragma once
// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016) in the form known as v1.5: the
// stride of a bottleneck lies in its 3x3 convolution. Names, order and initialisation are torchvision's.

#include <array>

#include "models/registry.h"

namespace engine::models {

struct ResNetConfig {
  bool bottleneck = false;
  std::array<int64_t, 4> blocks{};  // of each stage
  int64_t width = 64;               // channels of the stem and of the first stage's 3x3 convolutions
};

/// Any of the family; each stage has at least one block.
std::unique_ptr<Module> make_resnet(const ResNetConfig& config, const ModelOptions& options);

/// Each takes [n, h, w, 3] with h and w of 32 or more (smaller ones down to 1 work, too, but see little).
std::unique_ptr<Module> make_resnet18(const ModelOptions& options);
std::unique_ptr<Module> make_resnet34(const ModelOptions& options);
std::unique_ptr<Module> make_resnet50(const ModelOptions& options);
std::unique_ptr<Module> make_resnet101(const ModelOptions& options);
std::unique_ptr<Module> make_resnet152(const ModelOptions& options);

}  // namespace engine::models
