#include "kernels/batch_norm/batch_norm_pieces_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "tests/kernels/batch_norm_device_problem.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BatchNormApplyCuda;
using kernels::BatchNormBackwardApplyCuda;
using kernels::BatchNormFinalizeCuda;

const std::vector<BatchNormCase> kCases = {
    {2, 1, true, true}, {300, 64, true, true}, {7, 17, false, true}, {129, 24, true, true}, {45, 300, false, true}};

/// What a convolution's epilogue would leave: sums of each channel over the rows, of f(element).
template <typename F>
std::vector<float> channel_sums(const BatchNormProblem<float>& p, F&& f) {
  std::vector<double> sums(static_cast<size_t>(p.channels));
  for (size_t i = 0; i < p.x.size(); ++i) sums[i % sums.size()] += f(i);
  return converted<float>(sums);
}

template <typename T>
struct Pieces {
  explicit Pieces(const BatchNormCase& shape)
      : norm(shape),
        sum(channel_sums(norm.host, [&](size_t i) { return norm.host.x[i]; })),
        squares(channel_sums(norm.host, [&](size_t i) { return double{norm.host.x[i]} * norm.host.x[i]; })),
        scale(norm.gamma.size()),
        bias(norm.gamma.size()),
        stored_scale(norm.gamma.size()),
        stored_bias(norm.gamma.size()) {}

  BatchNormFinalizeCuda<T> finalize() {
    return {.count = norm.host.rows,
            .channels = norm.host.channels,
            .sum = sum.data(),
            .sum_squares = squares.data(),
            .gamma = norm.gamma.data(),
            .beta = norm.beta.data(),
            .running_mean = norm.running_mean.data(),
            .running_var = norm.running_var.data(),
            .saved_mean = norm.mean.data(),
            .saved_invstd = norm.invstd.data(),
            .scale = scale.data(),
            .bias = bias.data(),
            .stored_scale = stored_scale.data(),
            .stored_bias = stored_bias.data()};
  }

  BatchNormApplyCuda<T> apply() {
    return {.rows = norm.host.rows,
            .channels = norm.host.channels,
            .relu = norm.host.relu,
            .x = norm.x.data(),
            .scale = scale.data(),
            .bias = bias.data(),
            .residual = norm.residual.data(),
            .y = norm.y.data(),
            .mask = norm.mask.data()};
  }

  DeviceNorm<T> norm;
  DeviceArray<float> sum, squares, scale, bias;
  DeviceArray<T> stored_scale, stored_bias;
};

template <typename T>
class BatchNormPiecesDevice : public DeviceTest {};
TYPED_TEST_SUITE(BatchNormPiecesDevice, StorageTypes);

TYPED_TEST(BatchNormPiecesDevice, FinalizeAndApplyComeToTheForwardPass) {
  for (const BatchNormCase& shape : kCases) {
    Pieces<TypeParam> got(shape);
    BatchNormProblem<double> want = in_double(got.norm.host);
    kernels::batch_norm_finalize_cuda(got.finalize(), this->stream());
    kernels::batch_norm_apply_cuda(got.apply(), this->stream());
    kernels::batch_norm_forward_cpu(want.forward());
    const double tol = result_tolerance<TypeParam>(shape.rows), sum = sum_tolerance(shape.rows);
    ExpectClose(got.norm.mean.read(), converted<float>(want.mean), sum, shape.str() + " mean");
    ExpectClose(got.norm.invstd.read(), converted<float>(want.invstd), sum, shape.str() + " invstd");
    ExpectClose(got.norm.running_mean.read(), converted<float>(want.running_mean), sum, shape.str() + " running mean");
    ExpectClose(got.norm.running_var.read(), converted<float>(want.running_var), sum, shape.str() + " running var");
    ExpectClose(as_floats(got.norm.y.read()), converted<float>(want.y), tol, shape.str() + " y");
    ExpectSameBits(as_floats(got.stored_scale.read()), as_floats(stored<TypeParam>(got.scale.read())), "scale");
    ExpectSameBits(as_floats(got.stored_bias.read()), as_floats(stored<TypeParam>(got.bias.read())), "bias");
  }
}

TYPED_TEST(BatchNormPiecesDevice, EvaluationTakesTheRunningStatistics) {
  for (const BatchNormCase& shape : kCases) {
    Pieces<TypeParam> got(shape);
    BatchNormProblem<double> want = in_double(got.norm.host);
    BatchNormFinalizeCuda<TypeParam> args = got.finalize();
    args.saved_mean = args.saved_invstd = nullptr;
    args.stored_scale = args.stored_bias = nullptr;
    kernels::batch_norm_inference_finalize_cuda(args, this->stream());
    kernels::batch_norm_apply_cuda(got.apply(), this->stream());
    kernels::batch_norm_inference_cpu(want.forward());
    ExpectClose(as_floats(got.norm.y.read()), converted<float>(want.y), result_tolerance<TypeParam>(1), shape.str());
    ExpectSameBits(got.norm.running_var.read(), got.norm.host.running_var, "running var after evaluation");
  }
}

// A block's end with a projection: both branches are normalised where they are added.
TYPED_TEST(BatchNormPiecesDevice, ApplyScalesTheResidualToo) {
  for (const BatchNormCase& shape : kCases) {
    Pieces<TypeParam> got(shape);
    const BatchNormProblem<float>& host = got.norm.host;
    BatchNormApplyCuda<TypeParam> args = got.apply();
    args.scale = got.norm.gamma.data();
    args.bias = got.norm.beta.data();
    args.residual_scale = got.norm.running_var.data();
    args.residual_bias = got.norm.running_mean.data();
    args.y = got.norm.residual.data();
    kernels::batch_norm_apply_cuda(args, this->stream());
    std::vector<float> want(host.x.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t c = i % host.gamma.size();
      const double first = double{host.x[i]} * host.gamma[c] + host.beta[c];
      const double second = double{host.residual[i]} * host.running_var[c] + host.running_mean[c];
      want[i] = static_cast<float>(shape.relu ? std::max(first + second, 0.0) : first + second);
    }
    const double tol = tolerance(kUnitRoundoff<TypeParam>, 1, OpClass::elementwise);
    ExpectClose(as_floats(got.norm.residual.read()), want, tol, shape.str());
    if (!shape.relu) continue;
    const std::vector<uint32_t> words = got.norm.mask.read();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.norm.passed(i, words), want[i] > 0) << shape.str() << i;
  }
}

TYPED_TEST(BatchNormPiecesDevice, FinishAndApplyComeToTheBackwardPass) {
  for (BatchNormCase shape : kCases) {
    shape.relu = shape.residual = false;
    DeviceNorm<TypeParam> whole(shape);
    kernels::batch_norm_forward_cuda(whole.forward(), this->stream());
    kernels::batch_norm_backward_cuda(whole.backward(), this->stream());
    const BatchNormProblem<float>& host = whole.host;
    const std::vector<float> mean = whole.mean.read();
    const DeviceArray<float> sum(channel_sums(host, [&](size_t i) { return host.grad_y[i]; }));
    const DeviceArray<float> dot(channel_sums(
        host, [&](size_t i) { return double{host.grad_y[i]} * (double{host.x[i]} - mean[i % mean.size()]); }));
    const DeviceArray<float> grad_gamma(mean.size()), grad_beta(mean.size()), g_scale(mean.size()),
        x_scale(mean.size()), offset(mean.size());
    kernels::batch_norm_backward_finish_cuda({.count = host.rows,
                                              .channels = host.channels,
                                              .sum = sum.data(),
                                              .dot = dot.data(),
                                              .gamma = whole.gamma.data(),
                                              .invstd = whole.invstd.data(),
                                              .grad_gamma = grad_gamma.data(),
                                              .grad_beta = grad_beta.data(),
                                              .g_scale = g_scale.data(),
                                              .x_scale = x_scale.data(),
                                              .offset = offset.data()},
                                             this->stream());
    const std::vector<float> want = as_floats(whole.grad_x.read());
    const BatchNormBackwardApplyCuda<TypeParam> args{.rows = host.rows,
                                                     .channels = host.channels,
                                                     .g = whole.grad_y.data(),
                                                     .x = whole.x.data(),
                                                     .mean = whole.mean.data(),
                                                     .g_scale = g_scale.data(),
                                                     .x_scale = x_scale.data(),
                                                     .offset = offset.data(),
                                                     .grad_x = whole.grad_y.data()};
    kernels::batch_norm_backward_apply_cuda(args, this->stream());
    const double sums = sum_tolerance(shape.rows), size = std::sqrt(static_cast<double>(shape.rows));
    double gain = 0;
    for (const float value : g_scale.read()) gain = std::max(gain, std::abs(double{value}));
    ExpectClose(grad_gamma.read(), whole.grad_gamma.read(), sums, shape.str() + " gamma", size);
    ExpectClose(grad_beta.read(), whole.grad_beta.read(), sums, shape.str() + " beta", size);
    ExpectClose(as_floats(whole.grad_y.read()), want, result_tolerance<TypeParam>(shape.rows), shape.str(), gain);
  }
}

}  // namespace
}  // namespace engine::testing
