#include "kernels/cast/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

using kernels::BFloat16;
using kernels::cast_cpu;
using kernels::Half;

template <typename To, typename From>
To cast_one(From value) {
  To result{};
  cast_cpu(&value, &result, 1);
  return result;
}

// The value of a 16-bit pattern, from the definition of the format.
double value_of(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1), fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = exponent ? 1 + std::ldexp(fraction, -fraction_bits) : std::ldexp(fraction, -fraction_bits);
  return sign * std::ldexp(significand, (exponent ? exponent : 1) - bias);
}

template <typename H>
constexpr int kExponentBits = std::is_same_v<H, Half> ? 5 : 8;

template <typename H>
class CastHalf : public ::testing::Test {};
using Halves = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(CastHalf, Halves);

TYPED_TEST(CastHalf, EveryPatternSurvivesTheRoundTrip) {
  for (int pattern = 0; pattern <= 0xFFFF; ++pattern) {
    TypeParam half;
    half.bits = static_cast<uint16_t>(pattern);
    const double want = value_of(half.bits, kExponentBits<TypeParam>);
    const auto as_float = cast_one<float>(half);
    const auto as_double = cast_one<double>(half);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(as_float) && std::isnan(as_double));
      ASSERT_TRUE(std::isnan(cast_one<float>(cast_one<TypeParam>(as_double))));
      continue;
    }
    ASSERT_EQ(as_float, want);
    ASSERT_EQ(as_double, want);
    ASSERT_EQ(cast_one<TypeParam>(as_float).bits, half.bits);
    ASSERT_EQ(cast_one<TypeParam>(as_double).bits, half.bits);
  }
}

// Between neighbours: the nearer one, the even one in the middle; a double just off the middle must not be rounded to
// the middle on its way.
TYPED_TEST(CastHalf, RoundsToNearestEvenOnce) {
  for (int pattern = 0; pattern < 0x7F00; ++pattern) {
    TypeParam low, high;
    low.bits = static_cast<uint16_t>(pattern);
    high.bits = static_cast<uint16_t>(pattern + 1);
    const auto a = cast_one<double>(low), b = cast_one<double>(high);
    if (!std::isfinite(b)) break;
    const double middle = (a + b) / 2;
    ASSERT_EQ(cast_one<TypeParam>(middle).bits, pattern % 2 ? high.bits : low.bits) << pattern;
    ASSERT_EQ(cast_one<TypeParam>(std::nextafter(middle, a)).bits, low.bits) << pattern;
    ASSERT_EQ(cast_one<TypeParam>(std::nextafter(middle, b)).bits, high.bits) << pattern;
    ASSERT_EQ(cast_one<TypeParam>(static_cast<float>(middle)).bits, pattern % 2 ? high.bits : low.bits) << pattern;
    ASSERT_EQ(cast_one<TypeParam>(-std::nextafter(middle, b)).bits, high.bits | 0x8000) << pattern;
  }
}

TYPED_TEST(CastHalf, OverflowGoesToInfinity) {
  for (const double value : {1e39, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(cast_one<double>(cast_one<TypeParam>(value)), std::numeric_limits<double>::infinity());
    EXPECT_EQ(cast_one<double>(cast_one<TypeParam>(-value)), -std::numeric_limits<double>::infinity());
  }
  EXPECT_EQ(cast_one<TypeParam>(1e-300).bits, 0);
  EXPECT_EQ(cast_one<TypeParam>(-1e-300).bits, 0x8000);
}

TEST(Cast, BytesBecomeTheirValue) {
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    EXPECT_EQ(cast_one<float>(byte), value);
    EXPECT_EQ(cast_one<double>(byte), value);
    EXPECT_EQ(cast_one<float>(cast_one<Half>(byte)), value);
    EXPECT_EQ(cast_one<float>(cast_one<BFloat16>(byte)), value);
  }
}

TEST(Cast, BetweenTheHalvesGoesByValue) {
  EXPECT_EQ(cast_one<float>(cast_one<BFloat16>(Half(1.5F))), 1.5F);
  EXPECT_EQ(cast_one<float>(cast_one<Half>(BFloat16(-3.0F))), -3.0F);
  EXPECT_TRUE(std::isinf(cast_one<float>(cast_one<Half>(BFloat16(1e6F)))));
}

TEST(Cast, AnySizeAndInPlace) {
  for (const int64_t count : {0, 1, 7, 16, 17, 100003}) {
    const std::vector<double> x = uniform<double>(count, 1);
    std::vector<float> y = unwritten<float>(count);
    cast_cpu(x.data(), y.data(), count);
    ExpectSameBits(y, converted<float>(x));
    std::vector<double> same = x;
    cast_cpu(same.data(), same.data(), count);
    ExpectSameBits(same, x);
  }
}

}  // namespace
}  // namespace engine::testing
