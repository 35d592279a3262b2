#include "tests/support/golden_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/golden.h"
#include "tests/support/test_data.h"

namespace engine::testing {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error("golden: " + path.string() + ": " + what);
}

template <typename T>
std::vector<double> decode(std::string_view bytes) {
  std::vector<T> raw(bytes.size() / sizeof(T));
  std::memcpy(raw.data(), bytes.data(), raw.size() * sizeof(T));
  return std::vector<double>(raw.begin(), raw.end());
}

/// Sign, exponent and fraction of a 16-bit float with the given count of exponent bits, taken apart by definition.
double half_value(unsigned bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(static_cast<double>(bits & ((1U << fraction_bits) - 1)), -fraction_bits);
  double value = std::ldexp(1.0 + fraction, exponent - bias);
  if (exponent == 0) value = std::ldexp(fraction, 1 - bias);
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return bits & 0x8000U ? -value : value;
}

std::vector<double> decode_half(std::string_view bytes, int exponent_bits) {
  std::vector<double> values = decode<uint16_t>(bytes);
  for (double& value : values) value = half_value(static_cast<unsigned>(value), exponent_bits);
  return values;
}

std::vector<double> decode(const std::string& dtype, std::string_view bytes) {
  if (dtype == "F64") return decode<double>(bytes);
  if (dtype == "F32") return decode<float>(bytes);
  if (dtype == "F16") return decode_half(bytes, 5);
  if (dtype == "BF16") return decode_half(bytes, 8);
  if (dtype == "I64") return decode<int64_t>(bytes);
  if (dtype == "I32") return decode<int32_t>(bytes);
  if (dtype == "U8") return decode<uint8_t>(bytes);
  throw std::runtime_error("golden: type " + dtype + " is not read");
}

template <typename T>
std::string encode(const std::vector<double>& values) {
  const std::vector<T> raw(values.begin(), values.end());
  return std::string(reinterpret_cast<const char*>(raw.data()), raw.size() * sizeof(T));
}

std::string encode(const GoldenTensor& tensor) {
  if (tensor.dtype == "F64") return encode<double>(tensor.values);
  if (tensor.dtype == "F32") return encode<float>(tensor.values);
  if (tensor.dtype == "I64") return encode<int64_t>(tensor.values);
  throw std::runtime_error("golden: type " + tensor.dtype + " is not written");
}

}  // namespace

std::string detail::read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be opened");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::filesystem::path golden_path(std::string_view relative) {
  return std::filesystem::path(test_data_dir()) / "tests/golden" / relative;
}

GoldenTensors read_safetensors_file(const std::filesystem::path& path) {
  static_assert(std::endian::native == std::endian::little);
  const std::string bytes = detail::read_bytes(path);
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) fail(path, "no header");
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > bytes.size() - sizeof(header_size)) fail(path, "the header is longer than the file");
  const json header = json::parse(bytes.substr(sizeof(header_size), header_size));
  const std::string_view data = std::string_view(bytes).substr(sizeof(header_size) + header_size);
  GoldenTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry.at("data_offsets").get<std::array<size_t, 2>>();
    if (offsets[0] > offsets[1] || offsets[1] > data.size()) fail(path, name + " lies outside the file");
    const auto dtype = entry.at("dtype").get<std::string>();
    GoldenTensor tensor{dtype, entry.at("shape").get<Extents>(),
                        decode(dtype, data.substr(offsets[0], offsets[1] - offsets[0]))};
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    if (count != tensor.numel()) fail(path, name + " has another size than its shape");
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

void write_torch_file(const std::filesystem::path& path, const GoldenTensors& tensors) {
  std::vector<std::string> order;
  for (const auto& [name, tensor] : tensors) order.push_back(name);
  std::stable_sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    return (tensors.at(a).dtype == "F32" ? 4 : 8) > (tensors.at(b).dtype == "F32" ? 4 : 8);
  });
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const std::string& name : order) {
    const size_t begin = data.size();
    data += encode(tensors.at(name));
    header[name] = {
        {"dtype", tensors.at(name).dtype}, {"shape", tensors.at(name).shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << text << data;
  if (!file.flush()) fail(path, "cannot be written");
}

}  // namespace engine::testing
