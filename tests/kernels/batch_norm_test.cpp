#include "kernels/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/parallel.h"
#include "tests/kernels/batch_norm_problem.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BatchNormForward;

template <typename T>
using Forward = void (*)(const BatchNormForward<T>&);

template <typename T>
void expect_case_h_num_01(Forward<T> forward, Forward<T> inference) {
  std::vector<T> x = {1, 2, 3, 6}, gamma = {1}, beta = {0}, y(4), mean(1), invstd(1), running_mean = {0},
                 running_var = {1};
  std::vector<WorkspaceLine> workspace = batch_norm_workspace(1);
  BatchNormForward<T> args{.rows = 4, .channels = 1, .x = x.data(), .gamma = gamma.data(), .beta = beta.data()};
  args.y = y.data();
  args.running_mean = running_mean.data();
  args.running_var = running_var.data();
  args.saved_mean = mean.data();
  args.saved_invstd = invstd.data();
  args.workspace = workspace[0].bytes;
  forward(args);
  const double tol = tolerance<float>(4, OpClass::reduction);
  ExpectClose(y, std::vector<T>{T(-1.0690434), T(-0.5345217), T(0), T(1.6035652)}, tol, "y");
  ExpectClose(running_mean, std::vector<T>{T(0.3)}, tol, "running mean");
  ExpectClose(running_var, std::vector<T>{T(1.3666667)}, tol, "running var");
  const std::vector<T> mean_before = running_mean, var_before = running_var;
  inference(args);
  ExpectSameBits(running_mean, mean_before, "running mean after evaluation");
  ExpectSameBits(running_var, var_before, "running var after evaluation");
}

TEST(Cases, H_NUM_01_BatchNormVariancesAndMomentum) {
  expect_case_h_num_01<double>(kernels::batch_norm_forward_cpu<double>, kernels::batch_norm_inference_cpu<double>);
  expect_case_h_num_01<float>(kernels::batch_norm_forward_cpu<float>, kernels::batch_norm_inference_cpu<float>);
  expect_case_h_num_01<float>(kernels::batch_norm_forward_fast, kernels::batch_norm_inference_fast);
}

template <typename T>
void run_and_compare(const BatchNormCase& shape, Forward<float> fast, Forward<T> reference) {
  BatchNormProblem<float> got(shape);
  BatchNormProblem<T> want(shape);
  fast(got.forward());
  reference(want.forward());
  const double sum = tolerance<float>(shape.rows, OpClass::reduction);
  ExpectClose(got.y, converted<float>(want.y), sum, shape.str() + " y");
  ExpectClose(got.running_mean, converted<float>(want.running_mean), sum, shape.str() + " running mean");
  ExpectClose(got.running_var, converted<float>(want.running_var), sum, shape.str() + " running var");
  ExpectClose(got.mean, converted<float>(want.mean), sum, shape.str() + " mean");
  ExpectClose(got.invstd, converted<float>(want.invstd), sum, shape.str() + " invstd");
}

TEST(BatchNorm, FastAndFloatAgreeWithDoubleReference) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    run_and_compare<double>(shape, kernels::batch_norm_forward_fast, kernels::batch_norm_forward_cpu<double>);
    run_and_compare<double>(shape, kernels::batch_norm_forward_cpu<float>, kernels::batch_norm_forward_cpu<double>);
    run_and_compare<double>(shape, kernels::batch_norm_inference_fast, kernels::batch_norm_inference_cpu<double>);
  }
}

// Rows around a value far from zero, of deviation 1 / sqrt(3): what a sum of squares loses in float, a variance keeps.
void expect_statistics(const std::vector<float>& x, int64_t rows, int64_t channels, const char* what) {
  BatchNormProblem<float> got({rows, channels, false, false});
  BatchNormProblem<double> want({rows, channels, false, false});
  got.x = x;
  want.x = converted<double>(x);
  kernels::batch_norm_forward_fast(got.forward());
  kernels::batch_norm_forward_cpu(want.forward());
  const double tol = tolerance<float>(rows, OpClass::reduction);
  ExpectClose(got.invstd, converted<float>(want.invstd), tol, what);
  ExpectClose(got.mean, converted<float>(want.mean), tol, what);
}

TEST(BatchNorm, VarianceIsRightForLargeMeans) {
  for (const int64_t channels : {1, 3, 64, 2048}) {
    const int64_t rows = 5000 / (channels > 64 ? 10 : 1);
    for (const double mean : {1e4, -1e4, 1e6}) {
      std::vector<float> x = uniform<float>(rows * channels, 11);
      for (float& value : x) value += static_cast<float>(mean);
      expect_statistics(x, rows, channels, "far from zero");
    }
  }
}

TEST(BatchNorm, VarianceIsRightWhereChunksDiffer) {
  const int64_t rows = 6000, channels = 8;
  std::vector<float> x = uniform<float>(rows * channels, 12);
  for (size_t i = 0; i < x.size() / 2; ++i) x[i] += 1e5F;
  expect_statistics(x, rows, channels, "first half far off");
  x = uniform<float>(rows * channels, 12);
  for (int64_t i = 0; i < channels; ++i) x[static_cast<size_t>(i)] = -1e6F;
  expect_statistics(x, rows, channels, "first row far off");
  x = uniform<float>(rows * channels, 12);
  for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i) / 16;
  expect_statistics(x, rows, channels, "drifting");
}

TEST(BatchNorm, ConstantChannelGivesBeta) {
  BatchNormProblem<float> problem({600, 5, false, false});
  std::fill(problem.x.begin(), problem.x.end(), 12345.678F);
  kernels::batch_norm_forward_fast(problem.forward());
  for (size_t i = 0; i < problem.y.size(); ++i) ASSERT_EQ(problem.y[i], problem.beta[i % 5]);
}

TEST(BatchNorm, SavedStatisticsBelongToTheBatch) {
  BatchNormProblem<float> problem({2, 1, false, false});
  problem.x = {1, 3};
  kernels::batch_norm_forward_fast(problem.forward());
  EXPECT_EQ(problem.mean[0], 2);
  ExpectClose(problem.invstd, std::vector<float>{static_cast<float>(1 / std::sqrt(1 + 1e-5))},
              tolerance<float>(2, OpClass::reduction));
}

TEST(BatchNorm, RunningStatisticsMayBeAbsent) {
  BatchNormProblem<float> with({33, 7, true, false}), without({33, 7, true, false});
  kernels::batch_norm_forward_fast(with.forward());
  BatchNormForward<float> args = without.forward();
  args.running_mean = args.running_var = nullptr;
  kernels::batch_norm_forward_fast(args);
  ExpectSameBits(without.y, with.y);
}

TEST(BatchNorm, ResultMayBeInPlace) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    BatchNormProblem<float> apart(shape), over_x(shape), over_residual(shape);
    kernels::batch_norm_forward_fast(apart.forward());
    BatchNormForward<float> args = over_x.forward();
    args.y = over_x.x.data();
    kernels::batch_norm_forward_fast(args);
    ExpectSameBits(over_x.x, apart.y, "over x");
    if (!shape.residual) continue;
    args = over_residual.forward();
    args.y = over_residual.residual.data();
    kernels::batch_norm_forward_fast(args);
    ExpectSameBits(over_residual.residual, apart.y, "over residual");
  }
}

TEST(BatchNorm, NonFiniteValuesStayInTheirChannelAndShow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    BatchNormProblem<float> problem({700, 9, true, false}), clean({700, 9, true, false});
    problem.x[400 * 9 + 4] = bad;
    kernels::batch_norm_forward_fast(problem.forward());
    kernels::batch_norm_forward_fast(clean.forward());
    for (size_t i = 0; i < problem.y.size(); ++i) {
      if (i % 9 == 4) {
        ASSERT_TRUE(std::isnan(problem.y[i])) << i;
      } else {
        ASSERT_EQ(problem.y[i], clean.y[i]) << i;
      }
    }
    EXPECT_FALSE(std::isfinite(problem.running_mean[4]));
  }
}

TEST(BatchNorm, EqualBitsFromRunToRun) {
  const BatchNormCase shape{3001, 96, true, true};
  BatchNormProblem<float> first(shape), second(shape);
  kernels::batch_norm_forward_fast(first.forward());
  kernels::batch_norm_forward_fast(second.forward());
  ExpectSameBits(second.y, first.y);
  ExpectSameBits(second.running_var, first.running_var);
}

TEST(BatchNorm, AnyNumberOfThreads) {
  const int threads = kernels::max_threads();
  const BatchNormCase shape{3001, 96, true, true};
  BatchNormProblem<double> want(shape);
  kernels::batch_norm_forward_cpu(want.forward());
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    BatchNormProblem<float> got(shape);
    kernels::batch_norm_forward_fast(got.forward());
    ExpectClose(got.y, converted<float>(want.y), tolerance<float>(shape.rows, OpClass::reduction));
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace engine::testing
