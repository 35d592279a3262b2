#include "engine/train/config.h"

#include <array>
#include <charconv>
#include <cmath>

#include "kernels/common/loss_scale.h"

namespace engine {
namespace {

/// The number that a text begins with; the text is cut to what follows.
std::optional<double> leading_number(std::string_view& text) {
  double value = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return value;
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 4> kUnits = {{{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}}};

}  // namespace

std::optional<int64_t> memory_size(std::string_view text) {
  const std::optional<double> number = leading_number(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    const double bytes = *number * unit.bytes;
    if (text == unit.name && bytes >= 1 && bytes < 0x1p62) return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::optional<float> fixed_loss_scale(std::string_view text) {
  const std::optional<double> number = leading_number(text);
  if (!number || !text.empty()) return std::nullopt;
  if (*number < kernels::kLeastLossScale || *number > kernels::kMostLossScale) return std::nullopt;
  return static_cast<float>(*number);
}

}  // namespace engine
