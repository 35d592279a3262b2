#include "kernels/lars/lars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/norm/norm.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Lars;
using kernels::lars_ratio;
using kernels::lars_step_cpu;

template <typename T>
double norm_of(const std::vector<T>& values) {
  return std::sqrt(kernels::sum_of_squares_cpu(values.data(), static_cast<int64_t>(values.size())).value);
}

template <typename T>
class LarsCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LarsCase, Types);

TYPED_TEST(LarsCase, H_NUM_08_TrustRatio) {
  std::vector<TypeParam> w = {3, 4};
  const std::vector<TypeParam> grad = {TypeParam(0.6), TypeParam(0.8)};
  const double ratio = lars_ratio(norm_of(w), norm_of(grad), 0.001, 1e-4);
  const double tol = tolerance<float>(2, OpClass::reduction);  // the case's 1e-6
  ExpectClose(std::vector<double>{ratio}, std::vector<double>{0.0049975}, tol, "ratio");
  lars_step_cpu<TypeParam>({.lr = 0.1, .weight_decay = 1e-4, .ratio = ratio}, w.data(), grad.data(), nullptr, 2);
  ExpectClose(w, std::vector<TypeParam>{TypeParam(2.9997), TypeParam(3.9996)}, tol, "w");
}

TYPED_TEST(LarsCase, H_NUM_08_ZeroNormsGiveARatioOfOne) {
  std::vector<TypeParam> bias = {0, 0}, buffer = {0, 0};
  const std::vector<TypeParam> grad = {0, 0};
  const double ratio = lars_ratio(norm_of(bias), norm_of(grad), 0.001, 1e-4);
  EXPECT_EQ(ratio, 1);
  EXPECT_EQ(lars_ratio(1, 0, 0.001, 0), 1);
  EXPECT_EQ(lars_ratio(0, 1, 0.001, 0), 1);
  lars_step_cpu<TypeParam>({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .ratio = ratio}, bias.data(), grad.data(),
                           buffer.data(), 2);
  EXPECT_EQ(bias, grad);
}

// The ratio scales gradient and decay; momentum sums scaled ones, the rate comes last.
TYPED_TEST(LarsCase, MomentumSumsScaledGradients) {
  for (const bool nesterov : {false, true}) {
    const int64_t count = 37;
    std::vector<TypeParam> w = uniform<TypeParam>(count, 1), buffer = unwritten<TypeParam>(count);
    std::vector<double> want = converted<double>(w), sum(want.size());
    for (int step = 0; step < 3; ++step) {
      const std::vector<TypeParam> grad = uniform<TypeParam>(count, static_cast<uint64_t>(step + 5));
      const double ratio = 0.5 + step;
      lars_step_cpu<TypeParam>({.lr = 0.1,
                                .momentum = 0.9,
                                .weight_decay = 0.01,
                                .nesterov = nesterov,
                                .first_step = step == 0,
                                .grad_scale = 0.25,
                                .ratio = ratio},
                               w.data(), grad.data(), buffer.data(), count);
      for (size_t i = 0; i < want.size(); ++i) {
        const double d = ratio * (grad[i] * 0.25 + 0.01 * want[i]);
        sum[i] = 0.9 * sum[i] + d;
        want[i] -= 0.1 * (nesterov ? d + 0.9 * sum[i] : sum[i]);
      }
    }
    ExpectClose(w, converted<TypeParam>(want), tolerance<TypeParam>(3, OpClass::transcendental));
  }
}

}  // namespace
}  // namespace engine::testing
