#pragma once
// The golden files under tests/golden, made with PyTorch; tests/golden/README.md describes them. The reader and writer
// of safetensors here are the tests' own, so that they can disagree with the product's. Everything throws
// std::runtime_error, naming file and tensor, where a file is missing or not as described.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine::testing {

using Extents = std::vector<int64_t>;

/// A tensor of a file. All values of F64, F32, F16, BF16, I64 (below 2^53), I32 and U8 are exact as doubles.
struct GoldenTensor {
  std::string dtype;  // as safetensors spells it
  Extents shape;
  std::vector<double> values;

  int64_t numel() const { return static_cast<int64_t>(values.size()); }
  template <typename T>
  std::vector<T> as() const {
    return std::vector<T>(values.begin(), values.end());
  }
};

using GoldenTensors = std::map<std::string, GoldenTensor, std::less<>>;

/// Values of a tested result as a GoldenTensor ("F64").
template <typename T>
GoldenTensor golden_tensor(std::span<const T> values, Extents shape) {
  return {"F64", std::move(shape), std::vector<double>(values.begin(), values.end())};
}

/// NCHW to NHWC, and KCRS to KRSC, which is the same permutation. Other ranks come back unchanged.
GoldenTensor to_channels_last(const GoldenTensor& tensor);
/// NHWC to NCHW, and KRSC to KCRS. Other ranks come back unchanged.
GoldenTensor to_channels_first(const GoldenTensor& tensor);
/// A linear layer's weight [out, c*h*w] behind a flatten of {n, c, h, w}: columns from channel-height-width order to
/// height-width-channel order.
GoldenTensor columns_to_channels_last(const GoldenTensor& weight, int64_t c, int64_t h, int64_t w);
GoldenTensor columns_to_channels_first(const GoldenTensor& weight, int64_t c, int64_t h, int64_t w);

/// The path of a file below tests/golden.
std::filesystem::path golden_path(std::string_view relative);

/// All tensors of a safetensors file.
GoldenTensors read_safetensors_file(const std::filesystem::path& path);

/// Writes a file as safetensors.torch.save_file does: tensors by size of their type, then by name; the header filled up
/// with spaces to a multiple of 8; `__metadata__` {"format": "pt"}. Types F64, F32 and I64.
void write_torch_file(const std::filesystem::path& path, const GoldenTensors& tensors);

/// <name>.json and, where it exists, <name>.safetensors, for example GoldenFile("ops/conv2d").
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name);
  const nlohmann::json& json() const { return *json_; }
  bool has(std::string_view tensor) const { return tensors_.contains(tensor); }
  const GoldenTensor& at(std::string_view tensor) const;
  const GoldenTensors& tensors() const { return tensors_; }

 private:
  std::string name_;
  std::shared_ptr<const nlohmann::json> json_;
  GoldenTensors tensors_;
};

/// The formula (README.md): values that make_golden.py and the tests compute alike. In [-1, 1), exact in double.
std::vector<double> formula_unit(std::string_view name, int64_t count);
/// float32(offset + bound * unit), as "F32".
GoldenTensor formula_values(std::string_view name, Extents shape, double offset = 0.0, double bound = 2.0);
std::vector<int64_t> formula_labels(std::string_view name, int64_t count, int64_t classes);
/// A model's parameter or buffer by its torchvision name and PyTorch shape; num_batches_tracked is "I64" zero.
GoldenTensor formula_state(std::string_view name, Extents shape);

/// What is kept of a large tensor: L2 norm, sum, sum of value times formula_unit(name + "/probe"), 16 values.
using Fingerprint = std::array<double, 19>;

/// `values` in PyTorch's memory order (see to_channels_first).
Fingerprint fingerprint_of(std::span<const double> values, std::string_view name);
/// Row `row` of a stored [rows, 19] tensor.
Fingerprint fingerprint_at(const GoldenTensor& rows, int64_t row);
/// How far a fingerprint of `count` values is from the true one: the largest of |norm difference| / norm, |sum
/// difference| / (norm * sqrt(count)), |probe difference| / norm and |value difference| / max(|value|, norm /
/// sqrt(count)). Infinite where `got` is not finite, or where the true tensor is zero and `got` is not.
double fingerprint_distance(const Fingerprint& got, const Fingerprint& want, int64_t count);

}  // namespace engine::testing
