#pragma once
// Golden tensors as the engine's and back. Golden files have PyTorch's layouts, the engine channels last.

#include <string>

#include "engine/core/tensor.h"
#include "engine/nn/module.h"
#include "tests/support/golden.h"

namespace engine::testing {

/// As f32 or f64, images and filters channels last.
Tensor tensor_of(const GoldenTensor& golden, DType dtype);
/// The values of an f32 or f64 tensor in PyTorch's layout.
GoldenTensor golden_of(const Tensor& tensor);
/// The same for a model's tensor, which may be the linear layer behind a flatten.
GoldenTensor golden_of(const NamedTensor& named, const Tensor& values);

/// The engine's name of a model of the golden files ("simple_cnn").
std::string engine_name(const std::string& golden_model);
/// A model whose parameters and buffers are those of the formula, but for those that the file stores as state/<name>.
std::unique_ptr<Module> formula_model(const std::string& golden_model, int64_t classes, DType dtype,
                                      const GoldenFile* stored = nullptr);
/// Overwrites a model's tensor with a golden one.
void assign(const NamedTensor& named, const GoldenTensor& golden);
/// PyTorch's shape of a model's tensor.
Extents torch_shape(const NamedTensor& named);

}  // namespace engine::testing
