#include "kernels/max_pool2d/max_pool2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Pool2dShape;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

int64_t in_size(const Pool2dShape& s) { return s.n * s.h * s.w * s.c; }
int64_t out_size(const Pool2dShape& s) { return s.n * s.out_h() * s.out_w() * s.c; }

const std::vector<Pool2dShape> kShapes = {
    {.n = 2,
     .h = 12,
     .w = 10,
     .c = 64,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 1,
     .h = 7,
     .w = 5,
     .c = 3,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 3, .h = 8, .w = 8, .c = 1, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
    {.n = 1,
     .h = 9,
     .w = 9,
     .c = 17,
     .kernel_h = 5,
     .kernel_w = 5,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 2,
     .pad_w = 2},
    {.n = 2, .h = 6, .w = 7, .c = 33, .kernel_h = 2, .kernel_w = 3, .stride_h = 4, .stride_w = 5},
    {.n = 1, .h = 16, .w = 16, .c = 2, .kernel_h = 16, .kernel_w = 16},
    {.n = 1, .h = 1, .w = 1, .c = 70, .kernel_h = 2, .kernel_w = 2, .pad_h = 1, .pad_w = 1},
    {.n = 2,
     .h = 20,
     .w = 20,
     .c = 130,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
};

TEST(MaxPool2d, KnownValues) {
  const Pool2dShape shape{.n = 1,
                          .h = 3,
                          .w = 3,
                          .c = 1,
                          .kernel_h = 2,
                          .kernel_w = 2,
                          .stride_h = 2,
                          .stride_w = 2,
                          .pad_h = 1,
                          .pad_w = 1};
  const std::vector<float> x = {-1, 2, 3, 4, 5, 5, 7, 6, 5};
  std::vector<float> y(4);
  std::vector<uint8_t> index(4);
  for (const auto forward : {kernels::max_pool2d_forward_cpu<float>, kernels::max_pool2d_forward_fast}) {
    forward(shape, x.data(), y.data(), index.data());
    EXPECT_EQ(y, (std::vector<float>{-1, 3, 7, 6}));
    EXPECT_EQ(index, (std::vector<uint8_t>{3, 3, 3, 2}));
  }
}

TEST(MaxPool2d, FirstOfEqualsWinsAndNanWinsOverAll) {
  const Pool2dShape shape{.n = 1, .h = 1, .w = 4, .c = 1, .kernel_h = 1, .kernel_w = 4};
  const std::vector<std::pair<std::vector<float>, uint8_t>> cases = {
      {{1, 7, 7, 7}, 1},         {{-kInf, -kInf, -kInf, -kInf}, 0}, {{kNan, kInf, 3, 2}, 0}, {{1, kNan, kInf, kNan}, 3},
      {{0.0F, -0.0F, 0, -1}, 0}, {{1, 2, kInf, kInf}, 2},           {{5, 4, 3, kNan}, 3},
  };
  for (const auto forward : {kernels::max_pool2d_forward_cpu<float>, kernels::max_pool2d_forward_fast}) {
    for (const auto& [x, winner] : cases) {
      float y = 0;
      uint8_t index = 99;
      forward(shape, x.data(), &y, &index);
      EXPECT_EQ(index, winner);
      ExpectSameBits(std::vector<float>{y}, std::vector<float>{x[winner]});
    }
  }
}

// Few distinct values, so that ties are common, and some NaN.
std::vector<float> coarse(int64_t count, uint64_t key) {
  std::vector<float> values = uniform<float>(count, key, -4, 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 97 == 96 ? kNan : std::round(values[i]);
  return values;
}

TEST(MaxPool2d, FastEqualsReferenceBitForBit) {
  for (const Pool2dShape& shape : kShapes) {
    const std::vector<float> x = coarse(in_size(shape), 1), grad_y = uniform<float>(out_size(shape), 2);
    std::vector<float> y = unwritten<float>(out_size(shape)), want = y, eval = y;
    std::vector<uint8_t> index(y.size(), 255), want_index(y.size(), 254);
    kernels::max_pool2d_forward_fast(shape, x.data(), y.data(), index.data());
    kernels::max_pool2d_forward_cpu(shape, x.data(), want.data(), want_index.data());
    kernels::max_pool2d_forward_fast(shape, x.data(), eval.data(), nullptr);
    ExpectSameBits(y, want);
    ExpectSameBits(eval, want);
    EXPECT_EQ(index, want_index);
    std::vector<float> grad = unwritten<float>(in_size(shape)), want_grad = grad;
    kernels::max_pool2d_backward_fast(shape, grad_y.data(), index.data(), grad.data());
    kernels::max_pool2d_backward_cpu(shape, grad_y.data(), index.data(), want_grad.data());
    ExpectSameBits(grad, want_grad, "gradient");
  }
}

TEST(MaxPool2d, FiniteDifferences) {
  for (const Pool2dShape& shape : kShapes) {
    if (in_size(shape) > 2000) continue;
    std::vector<double> x = uniform<double>(in_size(shape), 5), y = unwritten<double>(out_size(shape));
    std::vector<double> grad_y = uniform<double>(out_size(shape), 6), grad_x = unwritten<double>(in_size(shape));
    std::vector<uint8_t> index(y.size());
    const auto loss = [&] {
      kernels::max_pool2d_forward_cpu(shape, x.data(), y.data(), index.data());
      return dot(y, grad_y);
    };
    loss();
    kernels::max_pool2d_backward_cpu(shape, grad_y.data(), index.data(), grad_x.data());
    ExpectClose(grad_x, numeric_gradient(x, loss), tolerance<double>(1, OpClass::finite_difference));
  }
}

}  // namespace
}  // namespace engine::testing
