#include "kernels/add/add.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

template <typename T>
class Add : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Add, Types);

TYPED_TEST(Add, SumsInPlaceAndApart) {
  for (const int64_t count : {0, 1, 3, 15, 16, 17, 1000, 100003}) {
    const std::vector<TypeParam> a = uniform<TypeParam>(count, 1), b = uniform<TypeParam>(count, 2);
    std::vector<TypeParam> want(a.size()), y = unwritten<TypeParam>(count), over_a = a, over_b = b, sum = b, twice = a;
    for (size_t i = 0; i < a.size(); ++i) want[i] = a[i] + b[i];
    kernels::add_forward_cpu(a.data(), b.data(), y.data(), count);
    ExpectSameBits(y, want, "apart");
    kernels::add_forward_cpu(over_a.data(), b.data(), over_a.data(), count);
    ExpectSameBits(over_a, want, "over a");
    kernels::add_forward_cpu(a.data(), over_b.data(), over_b.data(), count);
    ExpectSameBits(over_b, want, "over b");
    kernels::add_accumulate_cpu(a.data(), sum.data(), count);
    ExpectSameBits(sum, want, "accumulated");
    kernels::add_accumulate_cpu(twice.data(), twice.data(), count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(twice[i], 2 * a[i]);
  }
}

}  // namespace
}  // namespace engine::testing
