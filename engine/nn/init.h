#pragma once
// Initial values of parameters. Each tensor draws from a stream keyed by the seed and its name, so its values do not
// depend on what else the model has.

#include <string_view>

#include "engine/core/tensor.h"

namespace engine {

/// Normal with standard deviation sqrt(2 / fan_out), fan_out = k * r * s for a filter [k, r, s, c]: He et al.,
/// "Delving Deep into Rectifiers" (2015), as torchvision's ResNets (kaiming_normal_, fan_out, relu).
void init_he_normal_fan_out(const Tensor& filter, uint64_t seed, std::string_view name);

/// Uniform in [-1 / sqrt(fan_in), 1 / sqrt(fan_in)], PyTorch's default for the weight and the bias of convolutions and
/// linear layers.
void init_uniform_fan_in(const Tensor& tensor, int64_t fan_in, uint64_t seed, std::string_view name);

}  // namespace engine
