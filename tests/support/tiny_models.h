#pragma once
// Models of a few hundred parameters that take pictures of 6x6 with 2 channels.

#include <cstdint>
#include <memory>

#include "engine/nn/module.h"

namespace engine::testing {

inline constexpr int64_t kTinySize = 6, kTinyChannels = 2, kTinyClasses = 3;

/// conv (3x3, bias), batch norm, ReLU, flatten, linear: every kind of parameter, and buffers.
std::unique_ptr<Module> make_tiny_model(uint64_t seed = 0);

/// The same without batch norm: samples do not see each other.
std::unique_ptr<Module> make_plain_model(uint64_t seed = 0);

}  // namespace engine::testing
