#include "kernels/bias/bias.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/parallel.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

template <typename T>
void expect_definition(int64_t rows, int64_t channels) {
  const std::vector<T> x = uniform<T>(rows * channels, 1), bias = uniform<T>(channels, 2);
  std::vector<T> y = unwritten<T>(rows * channels), gradient = unwritten<T>(channels), over = x;
  std::vector<double> sums(bias.size());
  kernels::bias_forward_cpu(x.data(), bias.data(), y.data(), rows, channels);
  kernels::bias_forward_cpu(over.data(), bias.data(), over.data(), rows, channels);
  kernels::bias_backward_cpu(x.data(), gradient.data(), rows, channels);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t channel = i % bias.size();
    ASSERT_EQ(y[i], x[i] + bias[channel]);
    sums[channel] += x[i];
  }
  ExpectSameBits(over, y, "in place");
  // Summed in double, so even float is right to one rounding.
  ExpectClose(gradient, converted<T>(sums), tolerance<T>(1, OpClass::elementwise));
}

TEST(Bias, FollowsTheDefinition) {
  for (const int64_t rows : {1, 2, 64, 1000}) {
    for (const int64_t channels : {1, 3, 10, 16, 31, 32, 33, 2048}) {
      expect_definition<float>(rows, channels);
      expect_definition<double>(rows, channels);
    }
  }
}

TEST(Bias, NothingToAddUp) {
  std::vector<float> gradient = unwritten<float>(3);
  kernels::bias_backward_cpu<float>(nullptr, gradient.data(), 0, 3);
  EXPECT_EQ(gradient, std::vector<float>(3, 0));
  kernels::bias_forward_cpu<float>(nullptr, nullptr, nullptr, 4, 0);
}

TEST(Bias, SumDoesNotDependOnThreads) {
  const std::vector<float> x = uniform<float>(5000 * 100, 1);
  const int threads = kernels::max_threads();
  std::vector<float> first;
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    std::vector<float> gradient = unwritten<float>(100);
    kernels::bias_backward_cpu(x.data(), gradient.data(), 5000, 100);
    if (first.empty()) first = gradient;
    ExpectSameBits(gradient, first);
  }
  omp_set_num_threads(threads);
}

TEST(Bias, FiniteDifferences) {
  std::vector<double> x = uniform<double>(7 * 3, 1), bias = uniform<double>(3, 2), y(21), gradient(3);
  const std::vector<double> grad_y = uniform<double>(21, 3);
  const auto loss = [&] {
    kernels::bias_forward_cpu(x.data(), bias.data(), y.data(), 7, 3);
    return dot(y, grad_y);
  };
  kernels::bias_backward_cpu(grad_y.data(), gradient.data(), 7, 3);
  ExpectClose(gradient, numeric_gradient(bias, loss), tolerance<double>(7, OpClass::finite_difference));
}

}  // namespace
}  // namespace engine::testing
