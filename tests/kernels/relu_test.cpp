#include "kernels/relu/relu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <typename T>
class Relu : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Relu, Types);

TYPED_TEST(Relu, SpecialValues) {
  const std::vector<TypeParam> x = converted<TypeParam>(std::vector<double>{-1, 0, 2, -kInf, kInf, kNan});
  std::vector<TypeParam> y(6), grad_x(6), grad_y(6, 3);
  kernels::relu_forward_cpu(x.data(), y.data(), 6);
  ExpectClose(y, converted<TypeParam>(std::vector<double>{0, 0, 2, 0, kInf, kNan}), 0);
  kernels::relu_backward_cpu(y.data(), grad_y.data(), grad_x.data(), 6);
  ExpectClose(grad_x, std::vector<TypeParam>{0, 0, 3, 0, 3, 3}, 0);
}

TYPED_TEST(Relu, AnySizeAndInPlace) {
  for (const int64_t count : {0, 1, 3, 15, 16, 17, 1000, 100003}) {
    const std::vector<TypeParam> x = uniform<TypeParam>(count, 1), grad_y = uniform<TypeParam>(count, 2);
    std::vector<TypeParam> y = unwritten<TypeParam>(count), grad_x = unwritten<TypeParam>(count);
    kernels::relu_forward_cpu(x.data(), y.data(), count);
    kernels::relu_backward_cpu(y.data(), grad_y.data(), grad_x.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], std::max(x[i], TypeParam{0}));
      ASSERT_EQ(grad_x[i], x[i] > 0 ? grad_y[i] : 0);
    }
    std::vector<TypeParam> over_x = x, over_y = y, over_grad = grad_y;
    kernels::relu_forward_cpu(over_x.data(), over_x.data(), count);
    ExpectSameBits(over_x, y);
    kernels::relu_backward_cpu(y.data(), over_grad.data(), over_grad.data(), count);
    ExpectSameBits(over_grad, grad_x);
    kernels::relu_backward_cpu(over_y.data(), grad_y.data(), over_y.data(), count);
    ExpectSameBits(over_y, grad_x);
  }
}

TEST(ReluGradient, FiniteDifferences) {
  std::vector<double> x = uniform<double>(50, 3), y(50), grad_y = uniform<double>(50, 4), grad_x(50);
  const auto loss = [&] {
    kernels::relu_forward_cpu(x.data(), y.data(), 50);
    return dot(y, grad_y);
  };
  loss();
  kernels::relu_backward_cpu(y.data(), grad_y.data(), grad_x.data(), 50);
  ExpectClose(grad_x, numeric_gradient(x, loss), tolerance<double>(1, OpClass::finite_difference));
}

}  // namespace
}  // namespace engine::testing
