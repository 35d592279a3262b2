// Half and BFloat16 against their definition, over all bit patterns.

#include "kernels/common/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace engine::testing {
namespace {

/// Which 16-bit float: bits of the exponent; the fraction has the rest.
template <typename T>
constexpr int kExponentBits = 0;
template <>
constexpr int kExponentBits<kernels::Half> = 5;
template <>
constexpr int kExponentBits<kernels::BFloat16> = 8;

/// IEEE 754, section 3.4, taken apart by hand; infinity counts as the power of two behind the largest number.
template <typename T>
double magnitude(int bits) {
  const int fraction_bits = 15 - kExponentBits<T>, bias = (1 << (kExponentBits<T> - 1)) - 1;
  const int exponent = bits >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
  return std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

template <typename T>
constexpr int kInfinity = ((1 << kExponentBits<T>)-1) << (15 - kExponentBits<T>);

template <typename T>
T from_bits(int bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

template <typename T>
class Half16 : public ::testing::Test {};
using Types = ::testing::Types<kernels::Half, kernels::BFloat16>;
TYPED_TEST_SUITE(Half16, Types);

TYPED_TEST(Half16, AllPatternsToFloatAndBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const int magnitude_bits = bits & 0x7FFF;
    const auto value = static_cast<float>(from_bits<TypeParam>(bits));
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (magnitude_bits > kInfinity<TypeParam>) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const int back = TypeParam(value).bits;
      ASSERT_GT(back & 0x7FFF, kInfinity<TypeParam>) << bits;
      ASSERT_EQ(back & 0x8000, bits & 0x8000) << bits;
      continue;
    }
    const double expected = magnitude_bits == kInfinity<TypeParam> ? std::numeric_limits<double>::infinity()
                                                                   : magnitude<TypeParam>(magnitude_bits);
    ASSERT_EQ(std::abs(static_cast<double>(value)), expected) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
  }
}

TYPED_TEST(Half16, RoundsToNearestTiesToEven) {
  for (int low = 0; low < kInfinity<TypeParam>; ++low) {
    // The middle between two neighbours has one bit more and is a float.
    const auto middle = static_cast<float>((magnitude<TypeParam>(low) + magnitude<TypeParam>(low + 1)) / 2);
    const int even = low % 2 == 0 ? low : low + 1;
    for (const float sign : {1.0F, -1.0F}) {
      const int sign_bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(TypeParam(sign * middle).bits, sign_bit | even) << low;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle, 0.0F)).bits, sign_bit | low) << low;
      const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
      ASSERT_EQ(TypeParam(sign * above).bits, sign_bit | (low + 1)) << low;
    }
  }
}

TYPED_TEST(Half16, EndsOfFloat) {
  const float largest = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TypeParam(largest).bits, kInfinity<TypeParam>);
  EXPECT_EQ(TypeParam(-largest).bits, 0x8000 | kInfinity<TypeParam>);
  EXPECT_EQ(TypeParam(infinity).bits, kInfinity<TypeParam>);
  EXPECT_EQ(TypeParam(-infinity).bits, 0x8000 | kInfinity<TypeParam>);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TEST(Half16, KnownValues) {
  EXPECT_EQ(kernels::Half(1.0F).bits, 0x3C00);
  EXPECT_EQ(kernels::Half(65504.0F).bits, 0x7BFF);
  EXPECT_EQ(kernels::Half(65519.996F).bits, 0x7BFF);
  EXPECT_EQ(kernels::Half(65520.0F).bits, 0x7C00);
  EXPECT_EQ(kernels::Half(0x1p-24F).bits, 1);
  EXPECT_EQ(kernels::Half(-2.0F).bits, 0xC000);
  EXPECT_EQ(kernels::BFloat16(1.0F).bits, 0x3F80);
  EXPECT_EQ(kernels::BFloat16(-3.140625F).bits, 0xC049);
}

}  // namespace
}  // namespace engine::testing
