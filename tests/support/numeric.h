#pragma once
// Inputs and derivatives for tests of kernels.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/common/philox.h"

namespace engine::testing {

/// Numbers in [low, high) that depend on the key alone.
template <typename T>
std::vector<T> uniform(int64_t count, uint64_t key, double low = -1, double high = 1) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const kernels::Philox::Block words = kernels::Philox::block(key, i, 1);
    values[i] = static_cast<T>(low + (high - low) * kernels::Philox::uniform(words[0]));
  }
  return values;
}

/// NaN, so that a result that was not written shows.
template <typename T>
std::vector<T> unwritten(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count), std::numeric_limits<T>::quiet_NaN());
}

template <typename To, typename From>
std::vector<To> converted(const std::vector<From>& values) {
  return std::vector<To>(values.begin(), values.end());
}

/// Central differences of f (a function of the present values of x, which it reads itself) for each element of x.
template <typename F>
std::vector<double> numeric_gradient(std::vector<double>& x, F&& f) {
  const double step = std::cbrt(std::numeric_limits<double>::epsilon());
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + step;
    const double above = f();
    x[i] = value - step;
    const double below = f();
    x[i] = value;
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The same bits, so NaN equals itself and 0 differs from -0.
template <typename T>
void ExpectSameBits(const std::vector<T>& got, const std::vector<T>& want, const char* what = "") {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<Bits>(got[i]), std::bit_cast<Bits>(want[i])) << what << " at " << i;
  }
}

}  // namespace engine::testing
