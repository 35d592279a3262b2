#include "kernels/bn_relu_max_pool/bn_relu_max_pool_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BnReluMaxPoolBackwardCuda;
using kernels::BnReluMaxPoolForwardCuda;
using kernels::kNoWinner;
using kernels::Pool2dShape;

Pool2dShape stem(int64_t n, int64_t h, int64_t w, int64_t c) {
  return {.n = n,
          .h = h,
          .w = w,
          .c = c,
          .kernel_h = 3,
          .kernel_w = 3,
          .stride_h = 2,
          .stride_w = 2,
          .pad_h = 1,
          .pad_w = 1};
}

std::vector<Pool2dShape> shapes() {
  return {stem(2, 12, 10, 64),
          stem(1, 9, 7, 64),
          stem(3, 1, 2, 8),
          stem(2, 5, 6, 3),
          stem(1, 33, 32, 24),
          stem(2, 3, 3, 264),
          {.n = 3,
           .h = 7,
           .w = 5,
           .c = 8,
           .kernel_h = 3,
           .kernel_w = 2,
           .stride_h = 1,
           .stride_w = 3,
           .pad_h = 1,
           .pad_w = 1},
          {.n = 1, .h = 9, .w = 8, .c = 17, .kernel_h = 2, .kernel_w = 2, .stride_h = 3, .stride_w = 3},
          {.n = 2, .h = 6, .w = 6, .c = 1, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1}};
}

std::string name_of(const Pool2dShape& s) {
  return std::to_string(s.n) + "x" + std::to_string(s.h) + "x" + std::to_string(s.w) + "x" + std::to_string(s.c);
}

size_t outputs_of(const Pool2dShape& s) { return static_cast<size_t>(s.n * s.out_h() * s.out_w() * s.c); }

template <typename T>
std::vector<T> poisoned(size_t count) {
  return stored<T>(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
}

/// A problem with its tensors on the device; x and grad_y beside them as T holds them.
template <typename T>
struct DeviceStem {
  DeviceStem(const Pool2dShape& s, const std::vector<float>& input)
      : shape(s),
        rows(s.n * s.h * s.w),
        host_x(as_floats(stored<T>(input))),
        host_grad_y(as_floats(stored<T>(uniform<float>(static_cast<int64_t>(outputs_of(s)), 4)))),
        host_gamma(uniform<float>(s.c, 2, -1.5, 1.5)),
        host_beta(uniform<float>(s.c, 3)),
        x(stored<T>(host_x)),
        grad_y(stored<T>(host_grad_y)),
        y(poisoned<T>(outputs_of(s))),
        grad_x(poisoned<T>(host_x.size())),
        gamma(host_gamma),
        beta(host_beta),
        running_mean(std::vector<float>(host_beta.size(), 0)),
        running_var(std::vector<float>(host_beta.size(), 1)),
        mean(host_beta.size()),
        invstd(host_beta.size()),
        grad_gamma(host_beta.size()),
        grad_beta(host_beta.size()),
        index(std::vector<uint8_t>(outputs_of(s), 254)),
        workspace(static_cast<size_t>(kernels::bn_relu_max_pool_cuda_workspace_bytes(s))) {}
  explicit DeviceStem(const Pool2dShape& s) : DeviceStem(s, uniform<float>(s.n * s.h * s.w * s.c, 1, -1, 3)) {}

  BnReluMaxPoolForwardCuda<T> forward() {
    return {.shape = shape,
            .x = x.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .y = y.data(),
            .index = index.data(),
            .running_mean = running_mean.data(),
            .running_var = running_var.data(),
            .saved_mean = mean.data(),
            .saved_invstd = invstd.data(),
            .workspace = workspace.data()};
  }

  BnReluMaxPoolBackwardCuda<T> backward() {
    return {.shape = shape,
            .x = x.data(),
            .grad_y = grad_y.data(),
            .index = index.data(),
            .gamma = gamma.data(),
            .mean = mean.data(),
            .invstd = invstd.data(),
            .grad_x = grad_x.data(),
            .grad_gamma = grad_gamma.data(),
            .grad_beta = grad_beta.data(),
            .workspace = workspace.data()};
  }

  Pool2dShape shape;
  int64_t rows;
  std::vector<float> host_x, host_grad_y, host_gamma, host_beta;
  DeviceArray<T> x, grad_y, y, grad_x;
  DeviceArray<float> gamma, beta, running_mean, running_var, mean, invstd, grad_gamma, grad_beta;
  DeviceArray<uint8_t> index;
  DeviceArray<std::byte> workspace;
};

/// The same by the reference, in double.
struct Reference {
  template <typename T>
  explicit Reference(const DeviceStem<T>& p)
      : shape(p.shape),
        x(converted<double>(p.host_x)),
        gamma(converted<double>(p.host_gamma)),
        beta(converted<double>(p.host_beta)),
        grad_y(converted<double>(p.host_grad_y)),
        y(unwritten<double>(static_cast<int64_t>(grad_y.size()))),
        running_mean(gamma.size(), 0),
        running_var(gamma.size(), 1),
        mean(gamma.size()),
        invstd(gamma.size()),
        grad_x(x.size()),
        grad_gamma(gamma.size()),
        grad_beta(gamma.size()),
        index(grad_y.size()) {}

  void forward() {
    kernels::bn_relu_max_pool_forward_cpu<double>({.shape = shape,
                                                   .x = x.data(),
                                                   .gamma = gamma.data(),
                                                   .beta = beta.data(),
                                                   .y = y.data(),
                                                   .index = index.data(),
                                                   .running_mean = running_mean.data(),
                                                   .running_var = running_var.data(),
                                                   .saved_mean = mean.data(),
                                                   .saved_invstd = invstd.data()});
  }

  void backward() {
    kernels::bn_relu_max_pool_backward_cpu<double>({.shape = shape,
                                                    .x = x.data(),
                                                    .grad_y = grad_y.data(),
                                                    .index = index.data(),
                                                    .gamma = gamma.data(),
                                                    .mean = mean.data(),
                                                    .invstd = invstd.data(),
                                                    .grad_x = grad_x.data(),
                                                    .grad_gamma = grad_gamma.data(),
                                                    .grad_beta = grad_beta.data()});
  }

  Pool2dShape shape;
  std::vector<double> x, gamma, beta, grad_y, y, running_mean, running_var, mean, invstd, grad_x, grad_gamma, grad_beta;
  std::vector<uint8_t> index;
};

template <typename T>
double result_tolerance(int64_t rows) {
  return tolerance(kUnitRoundoff<T>, 1, OpClass::elementwise) + tolerance<float>(rows, OpClass::reduction);
}

// Places may differ where two values of a window are as good as equal, and only there: the input at the place must
// come to the window's maximum.
template <typename T>
void expect_index(const DeviceStem<T>& got, const Reference& want) {
  const Pool2dShape& s = got.shape;
  const std::vector<uint8_t> index = got.index.read();
  size_t out = 0;
  for (int64_t row = 0; row < s.n * s.out_h(); ++row) {
    for (int64_t ow = 0; ow < s.out_w(); ++ow) {
      for (int64_t c = 0; c < s.c; ++c, ++out) {
        if (index[out] == want.index[out]) continue;
        double z = 0;
        if (index[out] != kNoWinner) {
          ASSERT_LT(index[out], s.kernel_h * s.kernel_w) << out;
          const int64_t h = row % s.out_h() * s.stride_h - s.pad_h + index[out] / s.kernel_w;
          const int64_t w = ow * s.stride_w - s.pad_w + index[out] % s.kernel_w;
          ASSERT_TRUE(h >= 0 && h < s.h && w >= 0 && w < s.w) << out;
          const auto at = static_cast<size_t>(((row / s.out_h() * s.h + h) * s.w + w) * s.c + c);
          const auto own = static_cast<size_t>(c);
          z = (want.x[at] - want.mean[own]) * want.invstd[own] * want.gamma[own] + want.beta[own];
        }
        ASSERT_NEAR(z, want.y[out], 1e-5) << out;
      }
    }
  }
}

template <typename T>
class BnReluMaxPoolDevice : public DeviceTest {};
TYPED_TEST_SUITE(BnReluMaxPoolDevice, StorageTypes);

TYPED_TEST(BnReluMaxPoolDevice, ForwardAgreesWithReference) {
  for (const Pool2dShape& shape : shapes()) {
    DeviceStem<TypeParam> got(shape);
    Reference want(got);
    kernels::bn_relu_max_pool_forward_cuda(got.forward(), this->stream());
    want.forward();
    const double sum = tolerance<float>(got.rows, OpClass::reduction);
    const std::string what = name_of(shape);
    ExpectClose(as_floats(got.y.read()), converted<float>(want.y), result_tolerance<TypeParam>(got.rows), what + " y");
    ExpectClose(got.mean.read(), converted<float>(want.mean), sum, what + " mean");
    ExpectClose(got.invstd.read(), converted<float>(want.invstd), sum, what + " invstd");
    ExpectClose(got.running_mean.read(), converted<float>(want.running_mean), sum, what + " running mean");
    ExpectClose(got.running_var.read(), converted<float>(want.running_var), sum, what + " running var");
    expect_index(got, want);
  }
}

// Of the statistics and the places that the device's forward pass has left.
TYPED_TEST(BnReluMaxPoolDevice, BackwardAgreesWithReference) {
  for (const Pool2dShape& shape : shapes()) {
    DeviceStem<TypeParam> got(shape);
    kernels::bn_relu_max_pool_forward_cuda(got.forward(), this->stream());
    kernels::bn_relu_max_pool_backward_cuda(got.backward(), this->stream());
    Reference want(got);
    want.mean = converted<double>(got.mean.read());
    want.invstd = converted<double>(got.invstd.read());
    want.index = got.index.read();
    want.backward();
    const double sum = tolerance<float>(got.rows, OpClass::reduction), size = std::sqrt(static_cast<double>(got.rows));
    double gain = 0;
    for (size_t c = 0; c < want.gamma.size(); ++c) gain = std::max(gain, std::abs(want.gamma[c] * want.invstd[c]));
    const std::string what = name_of(shape);
    ExpectClose(as_floats(got.grad_x.read()), converted<float>(want.grad_x), result_tolerance<TypeParam>(got.rows),
                what + " x", gain);
    ExpectClose(got.grad_gamma.read(), converted<float>(want.grad_gamma), sum, what + " gamma", size);
    ExpectClose(got.grad_beta.read(), converted<float>(want.grad_beta), sum, what + " beta", size);
  }
}

TYPED_TEST(BnReluMaxPoolDevice, FirstOfEqualsWins) {
  const Pool2dShape shape = stem(1, 6, 6, 8);
  // Two values in turn, line by line, so that every window has several of the greater one.
  std::vector<float> x(static_cast<size_t>(6 * 6 * 8));
  for (size_t i = 0; i < x.size(); ++i) x[i] = i / 48 % 2 == 0 ? -1.0F : 1.0F;
  DeviceStem<TypeParam> got(shape, x);
  Reference want(got);
  kernels::bn_relu_max_pool_forward_cuda(got.forward(), this->stream());
  want.forward();
  ASSERT_EQ(got.index.read(), want.index);
}

TYPED_TEST(BnReluMaxPoolDevice, GradientMayBeInPlaceOrLeftOut) {
  for (const Pool2dShape& shape : shapes()) {
    DeviceStem<TypeParam> got(shape);
    kernels::bn_relu_max_pool_forward_cuda(got.forward(), this->stream());
    kernels::bn_relu_max_pool_backward_cuda(got.backward(), this->stream());
    const std::vector<float> x = as_floats(got.grad_x.read()), gamma = got.grad_gamma.read();
    BnReluMaxPoolBackwardCuda<TypeParam> args = got.backward();
    args.grad_x = nullptr;
    kernels::bn_relu_max_pool_backward_cuda(args, this->stream());
    ExpectSameBits(got.grad_gamma.read(), gamma, "left out");
    args.grad_x = got.x.data();
    kernels::bn_relu_max_pool_backward_cuda(args, this->stream());
    ExpectSameBits(as_floats(got.x.read()), x, "in place");
  }
}

TYPED_TEST(BnReluMaxPoolDevice, NanShowsInItsChannelOnly) {
  for (const int64_t channels : {64, 5}) {
    const Pool2dShape shape = stem(2, 12, 10, channels);
    std::vector<float> x = uniform<float>(2 * 12 * 10 * channels, 1, -1, 3);
    x[static_cast<size_t>(channels * 20 + 3)] = std::numeric_limits<float>::quiet_NaN();
    DeviceStem<TypeParam> got(shape, x);
    Reference want(got);
    kernels::bn_relu_max_pool_forward_cuda(got.forward(), this->stream());
    want.forward();
    const std::vector<float> y = as_floats(got.y.read());
    const std::vector<uint8_t> index = got.index.read();
    for (size_t i = 0; i < y.size(); ++i) {
      const bool own = i % static_cast<size_t>(channels) == 3;
      ASSERT_EQ(std::isnan(y[i]), own) << i;
      ASSERT_TRUE(!own || index[i] == want.index[i]) << i;
    }
  }
}

TYPED_TEST(BnReluMaxPoolDevice, SameBitsFromRunToRun) {
  const Pool2dShape shape = stem(3, 34, 31, 64);
  DeviceStem<TypeParam> first(shape), again(shape);
  for (DeviceStem<TypeParam>* problem : {&first, &again}) {
    kernels::bn_relu_max_pool_forward_cuda(problem->forward(), this->stream());
    kernels::bn_relu_max_pool_backward_cuda(problem->backward(), this->stream());
  }
  ExpectSameBits(as_floats(again.y.read()), as_floats(first.y.read()), "y");
  ExpectSameBits(as_floats(again.grad_x.read()), as_floats(first.grad_x.read()), "x");
  ExpectSameBits(again.grad_gamma.read(), first.grad_gamma.read(), "gamma");
  ASSERT_EQ(again.index.read(), first.index.read());
}

}  // namespace
}  // namespace engine::testing
