#pragma once
// The digit classifier: conv 1 -> 32, 3x3, stride 1, no padding; ReLU; flatten; linear 32 * 26 * 26 -> classes. Names
// conv1 and fc1; PyTorch's default initialisation.

#include "models/registry.h"

namespace engine::models {

/// Takes [n, 28, 28, 1].
std::unique_ptr<Module> make_simple_cnn(const ModelOptions& options);

}  // namespace engine::models
