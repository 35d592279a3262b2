// The fused forms of convolutions against compositions of references.

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d_device.h"
#include "kernels/conv2d/conv2d_fusion.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

using kernels::Conv2dShape;
using kernels::ConvBuffers;
using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvFusion;
using kernels::ConvPlanKey;
using kernels::ConvPrologue;
using kernels::ElementType;
using T = kernels::Half;  // the one type that GPUs have fused forms for

using Doubles = std::vector<double>;

const Conv2dShape k1x1{.n = 2, .h = 9, .w = 7, .c = 64, .k = 64};
const Conv2dShape k3x3{
    .n = 2, .h = 14, .w = 14, .c = 64, .k = 32, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};

constexpr double kSixteenBits = kUnitRoundoff<T>;

/// As the device stores them.
Doubles random(int64_t count, uint64_t key, double low = -1, double high = 1) {
  return converted<double>(rounded<T>(uniform<float>(count, key, low, high)));
}
Doubles halved(const Doubles& values) { return converted<double>(rounded<T>(converted<float>(values))); }

Operand<T> on_device(const Doubles& values) { return {stored<T>(converted<float>(values)), 0}; }
Operand<float> floats_on_device(const Doubles& values) { return {converted<float>(values), 0}; }

class FusedConv2d : public DeviceTest {
 protected:
  /// False where the device has no such form.
  static bool has(const ConvPlanKey& key) {
    if (!kernels::kBuiltWithCuda) return true;
    cudaDeviceProp properties;
    kernels::check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return kernels::conv_fusion_exists({.sm_version = properties.major * 10 + properties.minor}, key);
  }
  void run(const ConvPlanKey& key, const ConvBuffers& buffers) {
    const kernels::ConvPlan& plan = kernels::conv2d_plan(0, key);
    const DeviceArray<char> workspace(static_cast<size_t>(plan.workspace_bytes()));
    plan.run(buffers, workspace.data(), stream());
    synchronize();
  }
};

/// relu(x * scale + bias [+ residual [* residual_scale + residual_bias]]), rounded as it is stored.
struct Activation {
  Doubles x, scale, bias, residual, residual_scale, residual_bias;
  explicit Activation(const Conv2dShape& shape)
      : x(random(shape.x_numel(), 1)),
        scale(random(shape.c, 2, 0.5, 1.5)),
        bias(random(shape.c, 3)),
        residual(random(shape.x_numel(), 4)),
        residual_scale(random(shape.c, 5, 0.5, 1.5)),
        residual_bias(random(shape.c, 6)) {}

  Doubles value(ConvPrologue prologue) const {
    Doubles result(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t channel = i % scale.size();
      double z = x[i] * scale[channel] + bias[channel];
      if (prologue == ConvPrologue::scale_bias_add_relu) z += residual[i];
      if (prologue == ConvPrologue::dual_scale_bias_add_relu) {
        z += residual[i] * residual_scale[channel] + residual_bias[channel];
      }
      result[i] = std::max(z, 0.0);
    }
    return halved(result);
  }
};

TEST_F(FusedConv2d, ForwardEqualsItsParts) {
  for (const Conv2dShape& shape : {k1x1, k3x3}) {
    for (const ConvPrologue prologue : {ConvPrologue::none, ConvPrologue::scale_bias_relu,
                                        ConvPrologue::scale_bias_add_relu, ConvPrologue::dual_scale_bias_add_relu}) {
      const ConvPlanKey key{.shape = shape, .type = ElementType::f16, .fusion = {prologue, ConvEpilogue::statistics}};
      if (!has(key)) continue;
      const Activation in(shape);
      const Doubles input = prologue == ConvPrologue::none ? in.x : in.value(prologue);
      const Doubles weight = random(shape.weight_numel(), 7);
      Doubles want(static_cast<size_t>(shape.y_numel()));
      kernels::conv2d_forward_cpu(input.data(), weight.data(), static_cast<const double*>(nullptr), want.data(), shape);

      const auto x = on_device(in.x), scale = on_device(in.scale), bias = on_device(in.bias), w = on_device(weight);
      const auto residual = on_device(in.residual), residual_scale = on_device(in.residual_scale);
      const auto residual_bias = on_device(in.residual_bias);
      const Operand<T> y(shape.y_numel(), 0), activated(shape.x_numel(), 0);
      const Operand<float> sum(shape.k, 0), squares(shape.k, 0);
      run(key, {.x = x.data(),
                .weight = w.data(),
                .y = y.data(),
                .scale = scale.data(),
                .bias = bias.data(),
                .residual = residual.data(),
                .residual_scale = residual_scale.data(),
                .residual_bias = residual_bias.data(),
                .activated = activated.data(),
                .sum = sum.data(),
                .sum_of_squares = squares.data()});
      const std::string name = key.str();
      ExpectClose(y.floats(), want, tolerance(kSixteenBits, shape.r * shape.s * shape.c, OpClass::winograd), name);
      if (prologue != ConvPrologue::none && prologue != ConvPrologue::scale_bias_relu) {
        ExpectClose(activated.floats(), input, tolerance(kSixteenBits, 1, OpClass::elementwise), name + " activated");
      }
      const Doubles got = converted<double>(y.floats());
      Doubles sums(static_cast<size_t>(shape.k)), sums_of_squares(sums.size());
      for (size_t i = 0; i < got.size(); ++i) {
        sums[i % sums.size()] += got[i];
        sums_of_squares[i % sums.size()] += got[i] * got[i];
      }
      const int64_t rows = shape.y_numel() / shape.k;
      const double largest = *std::max_element(want.begin(), want.end());
      ExpectClose(sum.read(), sums, tolerance(kSixteenBits, rows, OpClass::reduction), name + " sum", largest);
      ExpectClose(squares.read(), sums_of_squares, tolerance(kSixteenBits, rows, OpClass::reduction), name + " squares",
                  largest * largest);
    }
  }
}

TEST_F(FusedConv2d, WeightGradientWithPrologueEqualsItsParts) {
  for (const Conv2dShape& shape : {k1x1, k3x3}) {
    const ConvPlanKey key{.shape = shape,
                          .direction = ConvDirection::backward_weights,
                          .type = ElementType::f16,
                          .fusion = {.prologue = ConvPrologue::scale_bias_relu}};
    if (!has(key)) GTEST_SKIP() << "this GPU has no plan for " << key.str();
    const Activation in(shape);
    const Doubles input = in.value(ConvPrologue::scale_bias_relu), grad = random(shape.y_numel(), 8);
    Doubles want(static_cast<size_t>(shape.weight_numel()));
    kernels::conv2d_backward_weights_cpu(input.data(), grad.data(), want.data(), static_cast<double*>(nullptr), shape);
    const auto x = on_device(in.x), scale = on_device(in.scale), bias = on_device(in.bias), grad_y = on_device(grad);
    const Operand<T> grad_weight(shape.weight_numel(), 0);
    run(key, {.x = x.data(),
              .grad_y = grad_y.data(),
              .grad_weight = grad_weight.data(),
              .scale = scale.data(),
              .bias = bias.data()});
    const int64_t rows = shape.y_numel() / shape.k;
    ExpectClose(grad_weight.floats(), want, tolerance(kSixteenBits, rows, OpClass::winograd), key.str());
  }
}

/// A batch norm over the convolution's input, on both sides.
struct Norm {
  Doubles x, gamma, beta, mean, invstd;
  Operand<T> x_device;
  Operand<float> mean_device, invstd_device, gamma_device, beta_device;
  Operand<float> grad_gamma, grad_beta, scale_grad, scale_x, offset;
  Norm(const Conv2dShape& shape, uint64_t key, Doubles values, Doubles mean_of_x, Doubles invstd_of_x)
      : x(std::move(values)),
        gamma(random(shape.c, key + 1, 0.5, 1.5)),
        beta(random(shape.c, key + 2)),
        mean(std::move(mean_of_x)),
        invstd(std::move(invstd_of_x)),
        x_device(on_device(x)),
        mean_device(floats_on_device(mean)),
        invstd_device(floats_on_device(invstd)),
        gamma_device(floats_on_device(gamma)),
        beta_device(floats_on_device(beta)),
        grad_gamma(shape.c, 0),
        grad_beta(shape.c, 0),
        scale_grad(shape.c, 0),
        scale_x(shape.c, 0),
        offset(shape.c, 0) {}

  static Norm make(const Conv2dShape& shape, uint64_t key) {
    const int64_t rows = shape.x_numel() / shape.c;
    Doubles x = random(shape.x_numel(), key), y(x.size());
    Doubles mean(static_cast<size_t>(shape.c)), invstd(mean.size()), ones(mean.size(), 1), zeros(mean.size(), 0);
    kernels::BatchNormForward<double> args{.rows = rows,
                                           .channels = shape.c,
                                           .x = x.data(),
                                           .gamma = ones.data(),
                                           .beta = zeros.data(),
                                           .y = y.data(),
                                           .saved_mean = mean.data(),
                                           .saved_invstd = invstd.data()};
    kernels::batch_norm_forward_cpu(args);
    return {shape, key, std::move(x), std::move(mean), std::move(invstd)};
  }

  ConvBuffers::Norm buffers() const {
    return {x_device.data(),   mean_device.data(), invstd_device.data(), gamma_device.data(), beta_device.data(),
            grad_gamma.data(), grad_beta.data(),   scale_grad.data(),    scale_x.data(),      offset.data()};
  }
  Doubles value(const Doubles& residual) const {
    Doubles z(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t channel = i % gamma.size();
      z[i] = (x[i] - mean[channel]) * invstd[channel] * gamma[channel] + beta[channel];
      if (!residual.empty()) z[i] += residual[i];
    }
    return z;
  }
  /// The device's sums, and the gradient that its coefficients give, against the reference's.
  void expect_backward(const Doubles& grad, const std::string& name) const {
    const auto channels = static_cast<int64_t>(gamma.size()), rows = static_cast<int64_t>(x.size()) / channels;
    Doubles grad_x(x.size()), dgamma(gamma.size()), dbeta(gamma.size());
    kernels::BatchNormBackward<double> args{.rows = rows,
                                            .channels = channels,
                                            .x = x.data(),
                                            .grad_y = grad.data(),
                                            .gamma = gamma.data(),
                                            .mean = mean.data(),
                                            .invstd = invstd.data(),
                                            .grad_x = grad_x.data(),
                                            .grad_gamma = dgamma.data(),
                                            .grad_beta = dbeta.data()};
    kernels::batch_norm_backward_cpu(args);
    double largest = 0;
    for (const double value : grad) largest = std::max(largest, std::abs(value));
    const double tol = tolerance(kSixteenBits, rows, OpClass::reduction);
    ExpectClose(grad_gamma.read(), dgamma, tol, name + " gamma", 2 * largest);
    ExpectClose(grad_beta.read(), dbeta, tol, name + " beta", largest);
    const std::vector<float> a = scale_grad.read(), b = scale_x.read(), c = offset.read();
    Doubles applied(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t channel = i % gamma.size();
      applied[i] = grad[i] * a[channel] + x[i] * b[channel] + c[channel];
    }
    ExpectClose(converted<float>(applied), grad_x, tolerance(kSixteenBits, 1, OpClass::elementwise), name + " apply");
  }
};

TEST_F(FusedConv2d, DataGradientThroughReluAndNormEqualsItsParts) {
  Conv2dShape stride_1 = k3x3;
  stride_1.stride_h = stride_1.stride_w = 1;
  for (const Conv2dShape& shape : {k1x1, stride_1, k3x3}) {
    for (const ConvEpilogue epilogue :
         {ConvEpilogue::norm_backward, ConvEpilogue::add_norm_backward, ConvEpilogue::add_dual_norm_backward}) {
      const ConvPlanKey key{.shape = shape,
                            .direction = ConvDirection::backward_data,
                            .type = ElementType::f16,
                            .fusion = {.epilogue = epilogue}};
      if (!has(key)) continue;
      const bool adds = epilogue != ConvEpilogue::norm_backward,
                 dual = epilogue == ConvEpilogue::add_dual_norm_backward;
      const Doubles grad = random(shape.y_numel(), 21), weight = random(shape.weight_numel(), 22);
      const Doubles shortcut = random(shape.x_numel(), 23), residual = random(shape.x_numel(), 24);
      const Norm norm = Norm::make(shape, 30), second = Norm::make(shape, 40);
      Doubles want(static_cast<size_t>(shape.x_numel()));
      kernels::conv2d_backward_data_cpu(grad.data(), weight.data(), want.data(), shape);
      const Doubles argument = norm.value(!adds ? Doubles{} : dual ? second.value({}) : residual);
      for (size_t i = 0; i < want.size(); ++i) {
        if (adds) want[i] += shortcut[i];
        if (argument[i] <= 0) want[i] = 0;
      }
      const auto grad_y = on_device(grad), w = on_device(weight), add = on_device(shortcut), res = on_device(residual);
      const Operand<T> grad_x(shape.x_numel(), 0);
      run(key, {.weight = w.data(),
                .grad_y = grad_y.data(),
                .grad_x = grad_x.data(),
                .residual = res.data(),
                .norm = norm.buffers(),
                .residual_norm = second.buffers(),
                .shortcut_grad = add.data()});
      const int64_t length = shape.r * shape.s * shape.k;
      ExpectClose(grad_x.floats(), want, tolerance(kSixteenBits, length, OpClass::winograd), key.str());
      const Doubles got = converted<double>(grad_x.floats());
      norm.expect_backward(got, key.str());
      if (dual) second.expect_backward(got, key.str() + " second");
    }
  }
}

}  // namespace
}  // namespace engine::testing
