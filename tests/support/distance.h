#pragma once
// How far two long vectors are apart as a whole.

#include <cmath>
#include <limits>
#include <vector>

namespace engine::testing {

/// Root mean square of the difference over that of `want`; infinite where a value is not finite or the sizes differ.
inline double distance(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

}  // namespace engine::testing
