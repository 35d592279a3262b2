#include "kernels/avg_pool2d/avg_pool2d.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Pool2dShape;

int64_t in_size(const Pool2dShape& s) { return s.n * s.h * s.w * s.c; }
int64_t out_size(const Pool2dShape& s) { return s.n * s.out_h() * s.out_w() * s.c; }

const std::vector<Pool2dShape> kShapes = {
    {.n = 3, .h = 8, .w = 8, .c = 5, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
    {.n = 2,
     .h = 7,
     .w = 5,
     .c = 3,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 3,
     .pad_h = 1,
     .pad_w = 1},
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
    {.n = 1, .h = 4, .w = 6, .c = 1, .kernel_h = 4, .kernel_w = 6},
};

TEST(AvgPool2d, PaddingCountsInTheMean) {
  const Pool2dShape shape{.n = 1,
                          .h = 2,
                          .w = 2,
                          .c = 1,
                          .kernel_h = 2,
                          .kernel_w = 2,
                          .stride_h = 2,
                          .stride_w = 2,
                          .pad_h = 1,
                          .pad_w = 1};
  const std::vector<float> x = {4, 8, 12, 16};
  std::vector<float> y(4);
  kernels::avg_pool2d_forward_cpu(shape, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4}));
}

template <typename T>
void expect_definition(const Pool2dShape& s) {
  const std::vector<T> x = uniform<T>(in_size(s), 1);
  std::vector<T> y = unwritten<T>(out_size(s)), want(y.size());
  for (int64_t i = 0; i < out_size(s); ++i) {
    const int64_t c = i % s.c, ow = i / s.c % s.out_w(), oh = i / s.c / s.out_w() % s.out_h();
    const int64_t n = i / s.c / s.out_w() / s.out_h();
    double sum = 0;
    for (int64_t place = 0; place < s.kernel_h * s.kernel_w; ++place) {
      const int64_t h = oh * s.stride_h - s.pad_h + place / s.kernel_w,
                    w = ow * s.stride_w - s.pad_w + place % s.kernel_w;
      if (h >= 0 && h < s.h && w >= 0 && w < s.w) sum += x[static_cast<size_t>(((n * s.h + h) * s.w + w) * s.c + c)];
    }
    want[static_cast<size_t>(i)] = static_cast<T>(sum / static_cast<double>(s.kernel_h * s.kernel_w));
  }
  kernels::avg_pool2d_forward_cpu(s, x.data(), y.data());
  ExpectClose(y, want, tolerance<T>(s.kernel_h * s.kernel_w, OpClass::reduction));
}

TEST(AvgPool2d, FollowsTheDefinition) {
  for (const Pool2dShape& shape : kShapes) {
    expect_definition<float>(shape);
    expect_definition<double>(shape);
  }
}

TEST(AvgPool2d, FiniteDifferences) {
  for (const Pool2dShape& shape : kShapes) {
    std::vector<double> x = uniform<double>(in_size(shape), 5), y = unwritten<double>(out_size(shape));
    std::vector<double> grad_y = uniform<double>(out_size(shape), 6), grad_x = unwritten<double>(in_size(shape));
    const auto loss = [&] {
      kernels::avg_pool2d_forward_cpu(shape, x.data(), y.data());
      return dot(y, grad_y);
    };
    kernels::avg_pool2d_backward_cpu(shape, grad_y.data(), grad_x.data());
    ExpectClose(grad_x, numeric_gradient(x, loss), tolerance<double>(1, OpClass::finite_difference));
  }
}

TEST(GlobalAvgPool, MeanOfEachPicturesChannel) {
  for (const int64_t spatial : {1, 49, 64}) {
    for (const int64_t c : {1, 3, 2048}) {
      const std::vector<float> x = uniform<float>(3 * spatial * c, 1);
      std::vector<float> y = unwritten<float>(3 * c), want(y.size());
      for (int64_t i = 0; i < 3 * c; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < spatial; ++p) sum += x[static_cast<size_t>((i / c * spatial + p) * c + i % c)];
        want[static_cast<size_t>(i)] = static_cast<float>(sum / static_cast<double>(spatial));
      }
      kernels::global_avg_pool_forward_cpu(x.data(), y.data(), 3, spatial, c);
      ExpectClose(y, want, tolerance<float>(spatial, OpClass::reduction));
    }
  }
}

TEST(GlobalAvgPool, FiniteDifferences) {
  std::vector<double> x = uniform<double>(2 * 9 * 3, 1), y(6), grad_y = uniform<double>(6, 2), grad_x(x.size());
  const auto loss = [&] {
    kernels::global_avg_pool_forward_cpu(x.data(), y.data(), 2, 9, 3);
    return dot(y, grad_y);
  };
  kernels::global_avg_pool_backward_cpu(grad_y.data(), grad_x.data(), 2, 9, 3);
  ExpectClose(grad_x, numeric_gradient(x, loss), tolerance<double>(9, OpClass::finite_difference));
}

}  // namespace
}  // namespace engine::testing
