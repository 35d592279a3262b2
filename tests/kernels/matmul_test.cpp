#include "kernels/matmul/matmul.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/common/philox.h"
#include "tests/support/tolerance.h"

namespace engine::kernels {
namespace {

using testing::ExpectClose;
using testing::OpClass;
using testing::tolerance;

template <typename T>
std::vector<T> uniform(int64_t count, uint64_t key) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(2 * Philox::uniform(Philox::block(key, i, 0)[0]) - 1);
  }
  return values;
}

std::vector<MatmulShape> sweep() {
  std::vector<MatmulShape> shapes;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {5, 7, 3}, {16, 10, 48}, {1, 33, 17}, {64, 64, 64}, {31, 1, 100}, {3, 4, 0}, {0, 4, 3}}) {
    for (int flags = 0; flags < 8; ++flags) {
      shapes.push_back({m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0});
    }
  }
  return shapes;
}

TEST(Matmul, ReferenceFollowsTheDefinition) {
  for (const MatmulShape& shape : sweep()) {
    const auto a = uniform<double>(shape.m * shape.k, 1), b = uniform<double>(shape.k * shape.n, 2);
    const auto before = uniform<double>(shape.m * shape.n, 3);
    std::vector<double> c = before, want = before;
    matmul_cpu(a.data(), b.data(), c.data(), shape);
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = shape.accumulate ? before[static_cast<size_t>(i * shape.n + j)] : 0;
        for (int64_t p = 0; p < shape.k; ++p) {
          sum += a[static_cast<size_t>(shape.transpose_a ? p * shape.m + i : i * shape.k + p)] *
                 b[static_cast<size_t>(shape.transpose_b ? j * shape.k + p : p * shape.n + j)];
        }
        want[static_cast<size_t>(i * shape.n + j)] = sum;
      }
    }
    ExpectClose(c, want, tolerance<double>(shape.k, OpClass::matmul));
  }
}

TEST(Matmul, FastPathAgreesWithTheReferenceInDouble) {
  for (const MatmulShape& shape : sweep()) {
    const auto a = uniform<float>(shape.m * shape.k, 1), b = uniform<float>(shape.k * shape.n, 2);
    std::vector<float> c = uniform<float>(shape.m * shape.n, 3);
    std::vector<double> want = uniform<double>(shape.m * shape.n, 3);
    matmul_onednn(a.data(), b.data(), c.data(), shape);
    const auto a_exact = uniform<double>(shape.m * shape.k, 1), b_exact = uniform<double>(shape.k * shape.n, 2);
    matmul_cpu(a_exact.data(), b_exact.data(), want.data(), shape);
    ExpectClose(c, want, tolerance<float>(shape.k, OpClass::matmul));
  }
}

TEST(Matmul, LinearLayerForwardAndGradients) {
  for (const LinearShape& shape : {LinearShape{16, 64, 10}, {1, 5, 3}, {7, 33, 17}, {300, 4, 20}}) {
    const auto x = uniform<float>(shape.batch * shape.in, 1), weight = uniform<float>(shape.out * shape.in, 2);
    const auto bias = uniform<float>(shape.out, 3), grad_y = uniform<float>(shape.batch * shape.out, 4);
    const std::vector<double> x_exact(x.begin(), x.end()), weight_exact(weight.begin(), weight.end());
    const std::vector<double> bias_exact(bias.begin(), bias.end()), grad_y_exact(grad_y.begin(), grad_y.end());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> y(grad_y.size(), nan), grad_x(x.size(), nan), grad_weight(weight.size(), nan);
    std::vector<float> grad_bias(bias.size(), nan);
    std::vector<double> y_want(y.size()), grad_x_want(x.size()), grad_weight_want(weight.size());
    std::vector<double> grad_bias_want(bias.size());
    linear_forward_onednn(x.data(), weight.data(), bias.data(), y.data(), shape);
    linear_forward_cpu(x_exact.data(), weight_exact.data(), bias_exact.data(), y_want.data(), shape);
    linear_backward_data_onednn(grad_y.data(), weight.data(), grad_x.data(), shape);
    linear_backward_data_cpu(grad_y_exact.data(), weight_exact.data(), grad_x_want.data(), shape);
    linear_backward_weights_onednn(x.data(), grad_y.data(), grad_weight.data(), grad_bias.data(), shape);
    linear_backward_weights_cpu(x_exact.data(), grad_y_exact.data(), grad_weight_want.data(), grad_bias_want.data(),
                                shape);
    ExpectClose(y, y_want, tolerance<float>(shape.in, OpClass::matmul), "y");
    ExpectClose(grad_x, grad_x_want, tolerance<float>(shape.out, OpClass::matmul), "grad_x");
    ExpectClose(grad_weight, grad_weight_want, tolerance<float>(shape.batch, OpClass::matmul), "grad_weight");
    ExpectClose(grad_bias, grad_bias_want, tolerance<float>(shape.batch, OpClass::reduction), "grad_bias");
    for (int64_t q = 0; q < shape.out; ++q) {
      double sum = 0;
      for (int64_t b = 0; b < shape.batch; ++b) sum += grad_y_exact[static_cast<size_t>(b * shape.out + q)];
      EXPECT_DOUBLE_EQ(grad_bias_want[static_cast<size_t>(q)], sum) << q;
    }
  }
}

TEST(Matmul, LinearWithoutBias) {
  const LinearShape shape{2, 3, 1};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, weight = {1, 10, 100};
  std::vector<float> y(2);
  linear_forward_onednn(x.data(), weight.data(), nullptr, y.data(), shape);
  EXPECT_EQ(y, (std::vector<float>{321, 654}));
}

// A float running sum of a million ones plus thirds would stall; the sums are kept in double.
TEST(Matmul, ColumnSumIsExactOverManyRows) {
  const int64_t rows = 100'003, columns = 3;
  std::vector<float> x(static_cast<size_t>(rows * columns), 0.1F), sums(3);
  column_sum(x.data(), sums.data(), rows, columns);
  for (const float sum : sums) EXPECT_EQ(sum, static_cast<float>(static_cast<double>(0.1F) * rows));
}

TEST(Matmul, RepeatsBitForBitWithoutFallbacks) {
  const int64_t before = matmul_fallbacks();
  const MatmulShape shape{.m = 10, .n = 2000, .k = 64, .transpose_a = true};
  const auto a = uniform<float>(shape.m * shape.k, 1), b = uniform<float>(shape.k * shape.n, 2);
  std::vector<float> first(static_cast<size_t>(shape.m * shape.n)), second = first;
  matmul_onednn(a.data(), b.data(), first.data(), shape);
  matmul_onednn(a.data(), b.data(), second.data(), shape);
  EXPECT_EQ(first, second);
  for (const MatmulShape& model : {MatmulShape{16, 1000, 2048, false, true, false},
                                   {64, 10, 21632, false, true, false},
                                   {10, 21632, 64, true, false, false},
                                   {64, 21632, 10, false, false, false}}) {
    EXPECT_EQ(matmul_implementation(model).find("ref"), std::string::npos);
  }
  EXPECT_EQ(matmul_fallbacks(), before);
}

TEST(Matmul, RefusesNegativeExtents) {
  float value = 0;
  EXPECT_THROW(matmul_onednn(&value, &value, &value, {.m = -1, .n = 1, .k = 1}), std::invalid_argument);
}

TEST(Tolerance, ComparisonsFailForNanInfinityAndLength) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  static std::vector<float> one, good, bad, endless;
  one = {1};
  good = {1, 2};
  bad = {1, nan};
  endless = {1, infinity};
  EXPECT_NONFATAL_FAILURE(ExpectClose(bad, good, 1e9), "got nan, want 2");
  EXPECT_NONFATAL_FAILURE(ExpectClose(good, bad, 1e9), "got 2, want nan");
  EXPECT_NONFATAL_FAILURE(ExpectClose(endless, good, 1e9), "got inf");
  EXPECT_NONFATAL_FAILURE(ExpectClose(good, endless, 1e9), "want inf");
  EXPECT_FATAL_FAILURE(ExpectClose(one, good, 1e9), "");
  ExpectClose(bad, bad, 0);
  ExpectClose(endless, endless, 0);
  ExpectClose(good, good, 0);
}

}  // namespace
}  // namespace engine::kernels
