#include "engine/amp/precision.h"

#include <algorithm>

#include "engine/core/error.h"

namespace engine {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "tf32", "bf16", "fp16"};
  return names;
}

std::optional<Precision> precision_of(std::string_view name) {
  const auto& names = precision_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Precision>(found - names.begin());
}

const char* name_of(Precision precision) { return precision_names().at(static_cast<size_t>(precision)).c_str(); }

DType compute_dtype_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return DType::f32;
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::f16;
  }
  throw Error("[amp] no such precision");
}

}  // namespace engine
