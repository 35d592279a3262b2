#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/cast/cast.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

// To float with rounding to odd: an inexact result gets its last bit set, so that rounding it once more, to at most 22
// bits, gives what rounding the double directly would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (std::is_arithmetic_v<To>) {
    if constexpr (std::is_arithmetic_v<From>)
      return static_cast<To>(value);
    else
      return static_cast<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<From, double>) {
    return To(round_to_odd(value));
  } else {
    return To(static_cast<float>(value));
  }
}

}  // namespace

template <typename From, typename To>
void cast_cpu(const From* x, To* y, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] = convert<To>(x[i]);
  });
}

template void cast_cpu(const double*, double*, int64_t);
template void cast_cpu(const double*, float*, int64_t);
template void cast_cpu(const double*, Half*, int64_t);
template void cast_cpu(const double*, BFloat16*, int64_t);
template void cast_cpu(const float*, double*, int64_t);
template void cast_cpu(const float*, float*, int64_t);
template void cast_cpu(const float*, Half*, int64_t);
template void cast_cpu(const float*, BFloat16*, int64_t);
template void cast_cpu(const Half*, double*, int64_t);
template void cast_cpu(const Half*, float*, int64_t);
template void cast_cpu(const Half*, Half*, int64_t);
template void cast_cpu(const Half*, BFloat16*, int64_t);
template void cast_cpu(const BFloat16*, double*, int64_t);
template void cast_cpu(const BFloat16*, float*, int64_t);
template void cast_cpu(const BFloat16*, Half*, int64_t);
template void cast_cpu(const BFloat16*, BFloat16*, int64_t);
template void cast_cpu(const uint8_t*, double*, int64_t);
template void cast_cpu(const uint8_t*, float*, int64_t);
template void cast_cpu(const uint8_t*, Half*, int64_t);
template void cast_cpu(const uint8_t*, BFloat16*, int64_t);

}  // namespace engine::kernels
