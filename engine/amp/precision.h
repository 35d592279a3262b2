#pragma once
// What a training computes in.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

namespace engine {

/// Master parameters, batch norm, loss, reductions and the optimizer are FP32 in all of them.
enum class Precision {
  fp32,
  tf32,  // FP32, but convolutions and products on an accelerator may round their operands to TF32
  bf16,  // activations, their gradients, weights and biases in BF16
  fp16,  // likewise in FP16, with loss scaling
};

/// "fp32", "tf32", "bf16", "fp16"
const std::vector<std::string>& precision_names();
std::optional<Precision> precision_of(std::string_view name);
const char* name_of(Precision precision);

/// The type of activations and of the compute copy of weights.
DType compute_dtype_of(Precision precision);
/// Whether gradients need a factor in order not to underflow.
constexpr bool scales_loss(Precision precision) { return precision == Precision::fp16; }

}  // namespace engine
