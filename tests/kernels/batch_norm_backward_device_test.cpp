#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_cuda.h"
#include "tests/kernels/batch_norm_device_problem.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BatchNormBackwardCuda;

template <typename T>
class BatchNormBackwardDevice : public DeviceTest {};
TYPED_TEST_SUITE(BatchNormBackwardDevice, StorageTypes);

// The reference gets the device's statistics and mask, so that it differentiates the same function.
template <typename T>
BatchNormProblem<double> reference_backward(const DeviceNorm<T>& got, bool training) {
  BatchNormProblem<double> want = in_double(got.host);
  want.mean = converted<double>(got.mean.read());
  want.invstd = converted<double>(got.invstd.read());
  const std::vector<uint32_t> words = got.mask.read();
  for (size_t i = 0; i < want.y.size(); ++i) want.y[i] = got.passed(i, words) ? 1 : 0;
  if (training) {
    kernels::batch_norm_backward_cpu(want.backward());
  } else {
    kernels::batch_norm_inference_backward_cpu(want.inference_backward());
  }
  return want;
}

// What gradients of 1 come to in x before they cancel, which they do almost wholly where rows are few.
double largest_gain(const BatchNormProblem<double>& p, bool training) {
  double gain = 0;
  for (size_t i = 0; i < p.gamma.size(); ++i) {
    const double invstd = training ? p.invstd[i] : 1 / std::sqrt(p.running_var[i] + 1e-5);
    gain = std::max(gain, std::abs(p.gamma[i]) * invstd);
  }
  return gain;
}

template <typename T>
void expect_gradients(const DeviceNorm<T>& got, const BatchNormProblem<double>& want, bool training,
                      const std::string& what) {
  const double tol = result_tolerance<T>(want.rows), sum = sum_tolerance(want.rows);
  const double size = std::sqrt(static_cast<double>(want.rows));
  ExpectClose(as_floats(got.grad_x.read()), converted<float>(want.grad_x), tol, what + " x",
              largest_gain(want, training));
  ExpectClose(got.grad_gamma.read(), converted<float>(want.grad_gamma), sum, what + " gamma", size);
  ExpectClose(got.grad_beta.read(), converted<float>(want.grad_beta), sum, what + " beta", size);
  if (want.grad_residual.empty()) return;
  ExpectSameBits(as_floats(got.grad_residual.read()), converted<float>(want.grad_residual), "residual");
}

TYPED_TEST(BatchNormBackwardDevice, BackwardAgreesWithReference) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    DeviceNorm<TypeParam> got(shape);
    kernels::batch_norm_forward_cuda(got.forward(), this->stream());
    kernels::batch_norm_backward_cuda(got.backward(), this->stream());
    expect_gradients(got, reference_backward(got, true), true, shape.str());
  }
}

TYPED_TEST(BatchNormBackwardDevice, InferenceBackwardAgreesWithReference) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    DeviceNorm<TypeParam> got(shape);
    kernels::batch_norm_inference_cuda(got.forward(), this->stream());
    kernels::batch_norm_inference_backward_cuda(got.inference_backward(), this->stream());
    expect_gradients(got, reference_backward(got, false), false, shape.str());
  }
}

TYPED_TEST(BatchNormBackwardDevice, MaskComputedAgainIsTheSameToTheLastBit) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    if (!shape.relu || shape.residual) continue;
    for (const bool training : {true, false}) {
      DeviceNorm<TypeParam> got(shape);
      (training ? kernels::batch_norm_forward_cuda<TypeParam>
                : kernels::batch_norm_inference_cuda<TypeParam>)(got.forward(), this->stream());
      const auto run = training ? kernels::batch_norm_backward_cuda<TypeParam>
                                : kernels::batch_norm_inference_backward_cuda<TypeParam>;
      BatchNormBackwardCuda<TypeParam> args = training ? got.backward() : got.inference_backward();
      run(args, this->stream());
      const std::vector<float> x = as_floats(got.grad_x.read()), gamma = got.grad_gamma.read();
      args.mask = nullptr;
      run(args, this->stream());
      ExpectSameBits(as_floats(got.grad_x.read()), x, "x");
      ExpectSameBits(got.grad_gamma.read(), gamma, "gamma");
    }
  }
}

TYPED_TEST(BatchNormBackwardDevice, NoGradientPassesWhereReluIsAtZero) {
  for (const int64_t channels : {8, 5}) {
    BatchNormProblem<float> problem({50, channels, true, false});
    std::fill(problem.x.begin(), problem.x.end(), 3.0F);
    std::fill(problem.beta.begin(), problem.beta.end(), 0.0F);
    DeviceNorm<TypeParam> got(problem);
    kernels::batch_norm_forward_cuda(got.forward(), this->stream());
    for (const uint32_t word : got.mask.read()) ASSERT_EQ(word, 0U);
    BatchNormBackwardCuda<TypeParam> args = got.backward();
    for (const uint32_t* mask : {args.mask, static_cast<const uint32_t*>(nullptr)}) {
      args.mask = mask;
      kernels::batch_norm_backward_cuda(args, this->stream());
      for (const float value : got.grad_beta.read()) ASSERT_EQ(value, 0.0F);
    }
  }
}

TYPED_TEST(BatchNormBackwardDevice, GradientsMayBeInPlaceOrLeftOut) {
  for (const BatchNormCase& shape : batch_norm_device_cases()) {
    for (const bool training : {true, false}) {
      const auto run = training ? kernels::batch_norm_backward_cuda<TypeParam>
                                : kernels::batch_norm_inference_backward_cuda<TypeParam>;
      DeviceNorm<TypeParam> got(shape);
      (training ? kernels::batch_norm_forward_cuda<TypeParam>
                : kernels::batch_norm_inference_cuda<TypeParam>)(got.forward(), this->stream());
      BatchNormBackwardCuda<TypeParam> args = training ? got.backward() : got.inference_backward();
      run(args, this->stream());
      const std::vector<float> x = as_floats(got.grad_x.read()), gamma = got.grad_gamma.read();
      args.grad_x = args.grad_residual = nullptr;
      run(args, this->stream());
      ExpectSameBits(got.grad_gamma.read(), gamma, "left out");
      args = training ? got.backward() : got.inference_backward();
      args.grad_x = shape.residual ? got.x.data() : got.grad_y.data();
      if (shape.residual) args.grad_residual = got.grad_y.data();
      const std::vector<float> residual = as_floats(got.grad_residual.read());
      run(args, this->stream());
      ExpectSameBits(as_floats((shape.residual ? got.x : got.grad_y).read()), x, "x in place");
      if (shape.residual) ExpectSameBits(as_floats(got.grad_y.read()), residual, "residual in place");
    }
  }
}

}  // namespace
}  // namespace engine::testing
