#include "tests/support/golden.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "tests/support/golden_file.h"

namespace engine::testing {
namespace {

constexpr int64_t kKeptValues = 16;
constexpr size_t kFirstValue = 3;

int64_t product(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Extents {a, b, c, d} read with the second axis last: {a, c, d, b}.
std::vector<double> second_axis_last(const std::vector<double>& in, int64_t a, int64_t b, int64_t inner) {
  std::vector<double> out(in.size());
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < inner; ++k) {
        out[static_cast<size_t>((i * inner + k) * b + j)] = in[static_cast<size_t>((i * b + j) * inner + k)];
      }
    }
  }
  return out;
}

void check_columns(const GoldenTensor& weight, int64_t columns) {
  if (weight.shape.size() != 2 || weight.shape[1] != columns) {
    throw std::runtime_error("golden: linear weight: its columns are not the flattened extents");
  }
}

uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

uint32_t name_hash(std::string_view name) {
  uint32_t hash = 0x811c9dc5U;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x01000193U;
  return hash;
}

uint32_t formula_bits(uint32_t hash, int64_t index) { return mix(hash ^ mix(static_cast<uint32_t>(index))); }

/// Flat indices of the values that a fingerprint keeps.
std::array<int64_t, kKeptValues> positions(std::string_view name, int64_t count) {
  const uint32_t hash = name_hash(std::string(name) + "/positions");
  std::array<int64_t, kKeptValues> chosen{};
  for (int64_t i = 1; i + 1 < kKeptValues; ++i) chosen[static_cast<size_t>(i)] = formula_bits(hash, i) % count;
  chosen.back() = count - 1;
  return chosen;
}

}  // namespace

GoldenTensor to_channels_last(const GoldenTensor& tensor) {
  if (tensor.shape.size() != 4) return tensor;
  const Extents& s = tensor.shape;
  return {tensor.dtype, {s[0], s[2], s[3], s[1]}, second_axis_last(tensor.values, s[0], s[1], s[2] * s[3])};
}

GoldenTensor to_channels_first(const GoldenTensor& tensor) {
  if (tensor.shape.size() != 4) return tensor;
  const Extents& s = tensor.shape;
  return {tensor.dtype, {s[0], s[3], s[1], s[2]}, second_axis_last(tensor.values, s[0], s[1] * s[2], s[3])};
}

GoldenTensor columns_to_channels_last(const GoldenTensor& weight, int64_t c, int64_t h, int64_t w) {
  check_columns(weight, c * h * w);
  return {weight.dtype, weight.shape, second_axis_last(weight.values, weight.shape[0], c, h * w)};
}

GoldenTensor columns_to_channels_first(const GoldenTensor& weight, int64_t c, int64_t h, int64_t w) {
  check_columns(weight, c * h * w);
  return {weight.dtype, weight.shape, second_axis_last(weight.values, weight.shape[0], h * w, c)};
}

GoldenFile::GoldenFile(const std::string& name) : name_(name) {
  const std::filesystem::path stem = golden_path(name);
  const auto with = [&](const char* extension) { return stem.string() + extension; };
  json_ = std::make_shared<const nlohmann::json>(nlohmann::json::parse(detail::read_bytes(with(".json"))));
  if (std::filesystem::exists(with(".safetensors"))) tensors_ = read_safetensors_file(with(".safetensors"));
}

const GoldenTensor& GoldenFile::at(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) throw std::runtime_error("golden: " + name_ + ": no tensor " + std::string(tensor));
  return found->second;
}

std::vector<double> formula_unit(std::string_view name, int64_t count) {
  const uint32_t hash = name_hash(name);
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = formula_bits(hash, i) * 0x1p-31 - 1.0;
  return values;
}

GoldenTensor formula_values(std::string_view name, Extents shape, double offset, double bound) {
  std::vector<double> values = formula_unit(name, product(shape));
  for (double& value : values) {
    const double scaled = bound * value;
    value = static_cast<float>(offset + scaled);
  }
  return {"F32", std::move(shape), std::move(values)};
}

std::vector<int64_t> formula_labels(std::string_view name, int64_t count, int64_t classes) {
  const uint32_t hash = name_hash(name);
  std::vector<int64_t> labels(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) labels[static_cast<size_t>(i)] = formula_bits(hash, i) % classes;
  return labels;
}

GoldenTensor formula_state(std::string_view name, Extents shape) {
  if (name.ends_with("num_batches_tracked")) return {"I64", {}, {0.0}};
  if (name.ends_with("running_mean")) return formula_values(name, std::move(shape), 0.0, 0.25);
  if (name.ends_with("running_var")) return formula_values(name, std::move(shape), 1.0, 0.5);
  if (name.ends_with("bias")) return formula_values(name, std::move(shape), 0.0, 0.125);
  if (name.ends_with("bn3.weight")) return formula_values(name, std::move(shape), 0.25, 0.125);
  if (shape.size() == 1) return formula_values(name, std::move(shape), 1.0, 0.25);
  const auto fan_in = static_cast<double>(product(shape) / shape[0]);
  return formula_values(name, std::move(shape), 0.0, std::sqrt(6.0 / fan_in));
}

Fingerprint fingerprint_of(std::span<const double> values, std::string_view name) {
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<double> probe = formula_unit(std::string(name) + "/probe", count);
  Fingerprint result{};
  for (size_t i = 0; i < values.size(); ++i) {
    result[0] += values[i] * values[i];
    result[1] += values[i];
    result[2] += values[i] * probe[i];
  }
  result[0] = std::sqrt(result[0]);
  size_t next = kFirstValue;
  for (const int64_t position : positions(name, count)) result[next++] = values[static_cast<size_t>(position)];
  return result;
}

Fingerprint fingerprint_at(const GoldenTensor& rows, int64_t row) {
  Fingerprint result{};
  if (rows.shape.size() != 2 || rows.shape[1] != static_cast<int64_t>(result.size()) || row >= rows.shape[0]) {
    throw std::runtime_error("golden: no such row of fingerprints: " + std::to_string(row));
  }
  std::copy_n(rows.values.begin() + row * rows.shape[1], result.size(), result.begin());
  return result;
}

double fingerprint_distance(const Fingerprint& got, const Fingerprint& want, int64_t count) {
  const double norm = want[0], root = std::sqrt(static_cast<double>(count)),
               infinity = std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double scale = i == 1 ? norm * root : norm;
    if (i >= kFirstValue) scale = std::max(std::abs(want[i]), norm / root);
    const double difference = std::abs(got[i] - want[i]);
    if (!std::isfinite(difference)) return infinity;
    if (difference > 0) worst = std::max(worst, scale > 0 ? difference / scale : infinity);
  }
  return worst;
}

}  // namespace engine::testing
