#include "kernels/batch_norm/batch_norm_cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "tests/kernels/batch_norm_device_problem.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BatchNormForwardCuda;

template <typename T>
class BatchNormDevice : public DeviceTest {};
TYPED_TEST_SUITE(BatchNormDevice, StorageTypes);

// Bits against the reference's z, but for values so near 0 that rounding decides.
template <typename T>
void expect_mask(const DeviceNorm<T>& got, const std::vector<double>& z, const std::string& what) {
  const std::vector<uint32_t> words = got.mask.read();
  for (size_t i = 0; i < words.size() * 32; ++i) {
    const bool decided = i >= z.size() || std::abs(z[i]) > 1e-5;
    if (!decided) continue;
    ASSERT_EQ(got.passed(i, words), i < z.size() && z[i] > 0) << what << " mask bit " << i;
  }
}

TYPED_TEST(BatchNormDevice, ForwardAgreesWithReference) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    DeviceNorm<TypeParam> got(shape);
    BatchNormProblem<double> want = in_double(got.host);
    const double tol = result_tolerance<TypeParam>(shape.rows), sum = sum_tolerance(shape.rows);
    kernels::batch_norm_forward_cuda(got.forward(), this->stream());
    kernels::batch_norm_forward_cpu(want.forward());
    ExpectClose(as_floats(got.y.read()), converted<float>(want.y), tol, shape.str() + " y");
    ExpectClose(got.mean.read(), converted<float>(want.mean), sum, shape.str() + " mean");
    ExpectClose(got.invstd.read(), converted<float>(want.invstd), sum, shape.str() + " invstd");
    ExpectClose(got.running_mean.read(), converted<float>(want.running_mean), sum, shape.str() + " running mean");
    ExpectClose(got.running_var.read(), converted<float>(want.running_var), sum, shape.str() + " running var");
    if (shape.relu) expect_mask(got, want.y, shape.str());
  }
}

TYPED_TEST(BatchNormDevice, InferenceAgreesWithReference) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    DeviceNorm<TypeParam> got(shape);
    BatchNormProblem<double> want = in_double(got.host);
    kernels::batch_norm_inference_cuda(got.forward(), this->stream());
    kernels::batch_norm_inference_cpu(want.forward());
    const double tol = tolerance(kUnitRoundoff<TypeParam>, 1, OpClass::elementwise);
    ExpectClose(as_floats(got.y.read()), converted<float>(want.y), tol, shape.str() + " y");
    ExpectSameBits(got.running_mean.read(), got.host.running_mean, "running mean after evaluation");
    ExpectSameBits(got.running_var.read(), got.host.running_var, "running var after evaluation");
    if (shape.relu) expect_mask(got, want.y, shape.str());
  }
}

TYPED_TEST(BatchNormDevice, ResultMayBeInPlace) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    DeviceNorm<TypeParam> apart(shape), over_x(shape), over_residual(shape);
    kernels::batch_norm_forward_cuda(apart.forward(), this->stream());
    BatchNormForwardCuda<TypeParam> args = over_x.forward();
    args.y = over_x.x.data();
    kernels::batch_norm_forward_cuda(args, this->stream());
    ExpectSameBits(as_floats(over_x.x.read()), as_floats(apart.y.read()), "over x");
    if (!shape.residual) continue;
    args = over_residual.forward();
    args.y = over_residual.residual.data();
    kernels::batch_norm_forward_cuda(args, this->stream());
    ExpectSameBits(as_floats(over_residual.residual.read()), as_floats(apart.y.read()), "over residual");
  }
}

TYPED_TEST(BatchNormDevice, SameBitsFromRunToRunAndWithoutWhatIsOptional) {
  for (const BatchNormCase& shape : {BatchNormCase{3000, 64, true, true}, BatchNormCase{777, 13, true, true}}) {
    DeviceNorm<TypeParam> first(shape), again(shape), bare(shape);
    for (DeviceNorm<TypeParam>* norm : {&first, &again}) {
      kernels::batch_norm_forward_cuda(norm->forward(), this->stream());
      kernels::batch_norm_backward_cuda(norm->backward(), this->stream());
    }
    ExpectSameBits(as_floats(again.y.read()), as_floats(first.y.read()), "y");
    ExpectSameBits(as_floats(again.grad_x.read()), as_floats(first.grad_x.read()), "x");
    ExpectSameBits(again.grad_gamma.read(), first.grad_gamma.read(), "gamma");
    ExpectSameBits(again.running_var.read(), first.running_var.read(), "running var");
    BatchNormForwardCuda<TypeParam> args = bare.forward();
    args.running_mean = args.running_var = nullptr;
    args.mask = nullptr;
    kernels::batch_norm_forward_cuda(args, this->stream());
    ExpectSameBits(as_floats(bare.y.read()), as_floats(first.y.read()), "y without running statistics and mask");
  }
}

TYPED_TEST(BatchNormDevice, NanShowsInItsChannelOnlyAndPassesRelu) {
  for (const int64_t channels : {8, 3}) {
    BatchNormProblem<float> problem({100, channels, true, false});
    problem.x[static_cast<size_t>(channels * 20 + 2)] = std::numeric_limits<float>::quiet_NaN();
    DeviceNorm<TypeParam> got(problem);
    kernels::batch_norm_forward_cuda(got.forward(), this->stream());
    const std::vector<float> y = as_floats(got.y.read());
    const std::vector<uint32_t> words = got.mask.read();
    const auto is_own = [&](size_t i) { return i % static_cast<size_t>(channels) == 2; };
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(std::isnan(y[i]), is_own(i)) << i;
      ASSERT_TRUE(!is_own(i) || got.passed(i, words)) << i;
    }
    kernels::batch_norm_backward_cuda(got.backward(), this->stream());
    const std::vector<float> x = as_floats(got.grad_x.read());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(std::isnan(x[i]), is_own(i)) << i;
  }
}

// Pointers that are not aligned to packs take single elements.
TYPED_TEST(BatchNormDevice, MisalignedTensorsAreAllowed) {
  BatchNormProblem<float> problem({37, 16, true, false});
  std::vector<float> shifted = {0};
  shifted.insert(shifted.end(), problem.x.begin(), problem.x.end());
  DeviceNorm<TypeParam> aligned(problem), got(problem);
  const DeviceArray<TypeParam> x(stored<TypeParam>(shifted));
  BatchNormForwardCuda<TypeParam> args = got.forward();
  args.x = x.data() + 1;
  kernels::batch_norm_forward_cuda(args, this->stream());
  kernels::batch_norm_forward_cuda(aligned.forward(), this->stream());
  ExpectClose(as_floats(got.y.read()), as_floats(aligned.y.read()), result_tolerance<TypeParam>(37), "y");
  ASSERT_EQ(got.mask.read(), aligned.mask.read());
}

// Rows around a value far from zero: what a sum of squares loses in float, a variance keeps.
template <typename T>
void expect_statistics(const std::vector<float>& x, int64_t rows, int64_t channels, cudaStream_t stream) {
  BatchNormProblem<float> problem({rows, channels, false, false});
  problem.x = x;
  DeviceNorm<T> got(problem);
  BatchNormProblem<double> want = in_double(got.host);
  kernels::batch_norm_forward_cuda(got.forward(), stream);
  kernels::batch_norm_forward_cpu(want.forward());
  ExpectClose(got.invstd.read(), converted<float>(want.invstd), sum_tolerance(rows), "invstd");
  ExpectClose(got.mean.read(), converted<float>(want.mean), sum_tolerance(rows), "mean");
  // Nearer to the reference than the mean's last place, which is coarser than the results are far from 0.
  const double tol = result_tolerance<T>(rows) + 0x1p-24 * std::abs(want.mean[0]) * want.invstd[0];
  ExpectClose(as_floats(got.y.read()), converted<float>(want.y), tol, "y");
}

std::vector<float> around(int64_t count, double mean, double deviation) {
  std::vector<float> x = uniform<float>(count, 11, -std::sqrt(3.0), std::sqrt(3.0));
  for (float& value : x) value = static_cast<float>(mean + deviation * static_cast<double>(value));
  return x;
}

class BatchNormStatistics : public DeviceTest {};

TEST_F(BatchNormStatistics, VarianceIsRightForLargeMeans) {
  for (const int64_t channels : {1, 3, 64, 2048}) {
    const int64_t rows = channels > 64 ? 40 : 3000;
    for (const double mean : {1e4, -1e4, 1e6}) {
      expect_statistics<float>(around(rows * channels, mean, 1), rows, channels, stream());
    }
    expect_statistics<kernels::Half>(around(rows * channels, 100, 0.1), rows, channels, stream());
    expect_statistics<kernels::BFloat16>(around(rows * channels, -100, 1), rows, channels, stream());
  }
}

TEST_F(BatchNormStatistics, VarianceIsRightWhereRowsDiffer) {
  const int64_t rows = 6000, channels = 8;
  std::vector<float> x = around(rows * channels, 0, 1);
  for (size_t i = 0; i < x.size() / 2; ++i) x[i] += 1e5F;
  expect_statistics<float>(x, rows, channels, stream());
  x = around(rows * channels, 0, 1);
  for (int64_t i = 0; i < channels; ++i) x[static_cast<size_t>(i)] = -1e6F;
  expect_statistics<float>(x, rows, channels, stream());
  x = around(rows * channels, 0, 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i) / 16;
  expect_statistics<float>(x, rows, channels, stream());
}

TEST_F(BatchNormStatistics, ConstantChannelGivesBeta) {
  for (const int64_t channels : {8, 5}) {
    BatchNormProblem<float> problem({600, channels, false, false});
    std::fill(problem.x.begin(), problem.x.end(), 12345.678F);
    DeviceNorm<float> got(problem);
    kernels::batch_norm_forward_cuda(got.forward(), stream());
    const std::vector<float> y = got.y.read();
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], problem.beta[i % static_cast<size_t>(channels)]);
  }
}

// Half holds all of the case's numbers but the results; BFloat16 likewise.
template <typename T>
void expect_case_h_num_01(cudaStream_t stream) {
  BatchNormProblem<float> problem({4, 1, false, false});
  problem.x = {1, 2, 3, 6};
  problem.gamma = {1};
  problem.beta = {0};
  problem.running_mean = {0};
  problem.running_var = {1};
  DeviceNorm<T> got(problem);
  kernels::batch_norm_forward_cuda(got.forward(), stream);
  const std::vector<float> y = {-1.0690434F, -0.5345217F, 0, 1.6035652F};
  ExpectClose(as_floats(got.y.read()), y, result_tolerance<T>(4), "y");
  const std::vector<float> mean = got.running_mean.read(), var = got.running_var.read();
  ExpectClose(mean, std::vector<float>{0.3F}, sum_tolerance(4), "running mean");
  ExpectClose(var, std::vector<float>{1.3666667F}, sum_tolerance(4), "running var");
  kernels::batch_norm_inference_cuda(got.forward(), stream);
  ExpectSameBits(got.running_mean.read(), mean, "running mean after evaluation");
  ExpectSameBits(got.running_var.read(), var, "running var after evaluation");
}

TEST(Cases, H_NUM_01_BatchNormVariancesAndMomentumOnTheDevice) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  expect_case_h_num_01<float>(nullptr);
  expect_case_h_num_01<kernels::Half>(nullptr);
  expect_case_h_num_01<kernels::BFloat16>(nullptr);
}

}  // namespace
}  // namespace engine::testing
