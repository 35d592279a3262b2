#include "kernels/common/storage_vec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/numeric.h"

namespace engine::kernels {
namespace {

template <typename T>
class StorageVec : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(StorageVec, Types);

/// half.h's conversion, one by one. NaN's payload may differ.
template <typename T>
void expect_rounded(const std::vector<float>& values, const std::vector<T>& got) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(static_cast<float>(got[i]))) << i;
    } else {
      ASSERT_EQ(got[i].bits, T(values[i]).bits) << values[i];
    }
  }
}

TYPED_TEST(StorageVec, WidensEveryPattern) {
  std::vector<TypeParam> stored(1 << 16);
  for (size_t i = 0; i < stored.size(); ++i) stored[i].bits = static_cast<uint16_t>(i);
  std::vector<float> got = testing::unwritten<float>(1 << 16);
  widen(stored.data(), got.data(), 1 << 16);
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto want = static_cast<float>(stored[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got[i])
                                 : std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want))
        << i;
  }
}

TYPED_TEST(StorageVec, RoundsAsTheScalarsDo) {
  // A step that is no power of two walks signs, exponents and fractions.
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 65521 * 3) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  // Ties, the ends of the ranges and just beside them.
  for (const float edge : {0.0F, 0x1p-24F, 0x1p-25F, 0x1p-14F, 65504.0F, 65519.0F, 65520.0F, 1.0F + 0x1p-11F,
                           1.0F + 3 * 0x1p-11F, 1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, 0x1p-149F, 0x1.fffffep127F,
                           std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const float value : {edge, std::nextafter(edge, 0.0F), std::nextafter(edge, 1e38F)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  std::vector<TypeParam> got(values.size());
  narrow(values.data(), got.data(), static_cast<int64_t>(values.size()));
  expect_rounded(values, got);
}

TYPED_TEST(StorageVec, EveryCountIsWrittenExactly) {
  for (int64_t count = 0; count <= 3 * kLanes; ++count) {
    const std::vector<float> values = testing::uniform<float>(count, 7);
    std::vector<TypeParam> stored(static_cast<size_t>(count) + 1);
    stored.back().bits = 0x1234;
    narrow(values.data(), stored.data(), count);
    EXPECT_EQ(stored.back().bits, 0x1234);
    stored.pop_back();
    expect_rounded(values, stored);
    std::vector<float> back(static_cast<size_t>(count) + 1, -7.0F);
    widen(stored.data(), back.data(), count);
    EXPECT_EQ(back.back(), -7.0F);
    for (size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(back[i], static_cast<float>(stored[i]));
  }
}

}  // namespace
}  // namespace engine::kernels
