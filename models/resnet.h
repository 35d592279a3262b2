#pragma once
// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016) in the form known as v1.5: the
// stride of a bottleneck lies in its 3x3 convolution. Names, order and initialisation are torchvision's.

#include "models/registry.h"

namespace engine::models {

/// Each takes [n, h, w, 3] with h and w of 32 or more (smaller ones down to 1 work, too, but see little).
std::unique_ptr<Module> make_resnet18(const ModelOptions& options);
std::unique_ptr<Module> make_resnet34(const ModelOptions& options);
std::unique_ptr<Module> make_resnet50(const ModelOptions& options);
std::unique_ptr<Module> make_resnet101(const ModelOptions& options);
std::unique_ptr<Module> make_resnet152(const ModelOptions& options);

}  // namespace engine::models
