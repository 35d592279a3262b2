#include "tests/support/tolerance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace engine::testing {
namespace {

template <typename U>
double scale_of(std::span<const U> want, double scale) {
  if (scale > 0) return scale;
  for (const U value : want) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(static_cast<double>(value)));
  }
  return scale > 0 ? scale : 1.0;
}

template <typename T, typename U>
void expect_close(std::span<const T> got, std::span<const U> want, double tol, std::string_view what, double scale) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double limit = tol * scale_of(want, scale);
  for (size_t i = 0; i < got.size(); ++i) {
    const auto g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    const bool close = std::isfinite(w) ? std::abs(g - w) <= limit : (std::isnan(w) ? std::isnan(g) : g == w);
    if (!close) {
      ADD_FAILURE() << what << " [" << i << "] of " << got.size() << ": got " << g << ", want " << w << ", difference "
                    << std::abs(g - w) << ", limit " << limit;
      return;
    }
  }
}

}  // namespace

double tolerance(double unit_roundoff, int64_t reduction_length, OpClass op_class) {
  const double sum = 2 + std::sqrt(static_cast<double>(std::max<int64_t>(reduction_length, 1)));
  switch (op_class) {
    case OpClass::elementwise:
      return 8 * unit_roundoff;
    case OpClass::transcendental:
      return 32 * unit_roundoff;
    case OpClass::reduction:
      return 4 * unit_roundoff * sum;
    case OpClass::matmul:
      return 4 * unit_roundoff * sum;
    case OpClass::winograd:
      // Against FP64, 3x3 filters of 16 to 512 channels: at most 1.13 unit_roundoff * sum, direct convolutions 0.73.
      return 8 * unit_roundoff * sum;
    case OpClass::finite_difference:
      return 1e4 * std::cbrt(unit_roundoff * unit_roundoff);
  }
  return 0;
}

template <typename T>
double tolerance(int64_t reduction_length, OpClass op_class) {
  return tolerance(std::numeric_limits<T>::epsilon() / 2.0, reduction_length, op_class);
}
template double tolerance<float>(int64_t, OpClass);
template double tolerance<double>(int64_t, OpClass);

void ExpectClose(std::span<const float> got, std::span<const float> want, double tol, std::string_view what,
                 double scale) {
  expect_close(got, want, tol, what, scale);
}
void ExpectClose(std::span<const double> got, std::span<const double> want, double tol, std::string_view what,
                 double scale) {
  expect_close(got, want, tol, what, scale);
}
void ExpectClose(std::span<const float> got, std::span<const double> want, double tol, std::string_view what,
                 double scale) {
  expect_close(got, want, tol, what, scale);
}

}  // namespace engine::testing
