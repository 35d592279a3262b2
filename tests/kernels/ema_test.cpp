#include "kernels/ema/ema.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

template <typename T>
class EmaCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmaCase, Types);

TYPED_TEST(EmaCase, H_REQ_01_MovingAverage) {
  std::vector<TypeParam> average = {0};
  const double wanted[] = {0.1, 0.29, 0.561};
  for (int step = 0; step < 3; ++step) {
    const std::vector<TypeParam> w = {static_cast<TypeParam>(step + 1)};
    kernels::ema_update_cpu(0.9, w.data(), average.data(), 1);
    ExpectClose(average, std::vector<TypeParam>{static_cast<TypeParam>(wanted[step])},
                tolerance<TypeParam>(3, OpClass::elementwise));
  }
}

TYPED_TEST(EmaCase, AnySizeAndBothEnds) {
  for (const int64_t count : {0, 1, 15, 17, 50001}) {
    const std::vector<TypeParam> w = uniform<TypeParam>(count, 1), start = uniform<TypeParam>(count, 2);
    std::vector<TypeParam> average = start, want(start.size());
    for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<TypeParam>(0.75 * start[i] + 0.25 * w[i]);
    kernels::ema_update_cpu(0.75, w.data(), average.data(), count);
    ExpectClose(average, want, tolerance<TypeParam>(1, OpClass::elementwise));
    average = start;
    kernels::ema_update_cpu(1, w.data(), average.data(), count);
    EXPECT_EQ(average, start);
    kernels::ema_update_cpu(0, w.data(), average.data(), count);
    EXPECT_EQ(average, w);
  }
}

}  // namespace
}  // namespace engine::testing
