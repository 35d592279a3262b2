#include "kernels/dropout/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/parallel.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Dropout;

template <typename T>
class DropoutKernel : public ::testing::Test {
 protected:
  static std::vector<T> forward(const Dropout& spec, const std::vector<T>& x) {
    std::vector<T> y = unwritten<T>(static_cast<int64_t>(x.size()));
    kernels::dropout_forward_cpu(spec, x.data(), y.data(), static_cast<int64_t>(x.size()));
    return y;
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutKernel, Types);

TYPED_TEST(DropoutKernel, DropsTheRightShareAndScalesTheRest) {
  const int64_t count = 100000;
  const std::vector<TypeParam> ones(count, 1);
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::vector<TypeParam> y = this->forward({.probability = p, .seed = 5, .offset = 1}, ones);
    const auto kept = static_cast<double>(count - std::count(y.begin(), y.end(), TypeParam{0}));
    // Five standard deviations of a binomial count.
    EXPECT_LT(std::abs(kept - (1 - p) * count), 5 * std::sqrt(count * p * (1 - p)));
    for (const TypeParam value : y) ASSERT_TRUE(value == 0 || value == static_cast<TypeParam>(1 / (1 - p)));
  }
}

TYPED_TEST(DropoutKernel, BackwardHasTheSameMaskInPlaceToo) {
  for (const int64_t count : {0, 1, 2, 3, 4, 5, 1000, 40001}) {
    const Dropout spec{.probability = 0.3, .seed = 9, .offset = 2};
    const std::vector<TypeParam> x = uniform<TypeParam>(count, 1, 1, 2);
    const std::vector<TypeParam> y = this->forward(spec, x);
    std::vector<TypeParam> gradient = x;
    kernels::dropout_backward_cpu(spec, gradient.data(), gradient.data(), count);
    ExpectSameBits(gradient, y);
  }
}

TYPED_TEST(DropoutKernel, NothingAndEverythingDropped) {
  std::vector<TypeParam> x = uniform<TypeParam>(1001, 1);
  x[7] = std::numeric_limits<TypeParam>::infinity();
  ExpectSameBits(this->forward({.probability = 0, .seed = 1, .offset = 0}, x), x);
  ExpectSameBits(this->forward({.probability = 1, .seed = 1, .offset = 0}, x), std::vector<TypeParam>(1001, 0));
}

TYPED_TEST(DropoutKernel, MaskDependsOnSeedAndOffsetButNotOnThreads) {
  const std::vector<TypeParam> ones(30000, 1);
  const std::vector<TypeParam> y = this->forward({.probability = 0.5, .seed = 1, .offset = 1}, ones);
  EXPECT_NE(this->forward({.probability = 0.5, .seed = 2, .offset = 1}, ones), y);
  EXPECT_NE(this->forward({.probability = 0.5, .seed = 1, .offset = 2}, ones), y);
  const int threads = kernels::max_threads();
  for (const int count : {1, 2, 5}) {
    omp_set_num_threads(count);
    ExpectSameBits(this->forward({.probability = 0.5, .seed = 1, .offset = 1}, ones), y);
  }
  omp_set_num_threads(threads);
}

TEST(DropoutGradient, FiniteDifferences) {
  const Dropout spec{.probability = 0.4, .seed = 3, .offset = 4};
  std::vector<double> x = uniform<double>(30, 1), y(30), grad_y = uniform<double>(30, 2), grad_x(30);
  const auto loss = [&] {
    kernels::dropout_forward_cpu(spec, x.data(), y.data(), 30);
    return dot(y, grad_y);
  };
  kernels::dropout_backward_cpu(spec, grad_y.data(), grad_x.data(), 30);
  ExpectClose(grad_x, numeric_gradient(x, loss), tolerance<double>(1, OpClass::finite_difference));
}

}  // namespace
}  // namespace engine::testing
