// The fast path's algorithms one by one, on shapes that conv2d_select would give to another, too.

#include <gtest/gtest.h>
#include <omp.h>

#include <functional>
#include <limits>
#include <vector>

#include "bench/support/convolutions.h"
#include "kernels/common/onednn.h"
#include "kernels/common/philox.h"
#include "kernels/common/vec.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_onednn.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/conv2d/conv2d_select.h"
#include "kernels/conv2d/conv2d_winograd.h"
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

template <typename T>
struct Tensors {
  explicit Tensors(const Conv2dShape& shape)
      : x(uniform<T>(shape.x_numel(), 1)),
        weight(uniform<T>(shape.weight_numel(), 2)),
        bias(uniform<T>(shape.k, 3)),
        grad_y(uniform<T>(shape.y_numel(), 4)) {
    const T unset = std::numeric_limits<T>::quiet_NaN();
    y.assign(grad_y.size(), unset);
    grad_x.assign(x.size(), unset);
    grad_weight.assign(weight.size(), unset);
  }
  std::vector<T> x, weight, bias, grad_y, y, grad_x, grad_weight;
};

struct Algorithm {
  ConvAlgorithm name;
  OpClass op_class;
  bool (*takes)(const Conv2dShape&);
  void (*forward)(const float*, const float*, const float*, float*, const Conv2dShape&);
  void (*backward_data)(const float*, const float*, float*, const Conv2dShape&);
  void (*backward_weights)(const float*, const float*, float*, const Conv2dShape&);
};

const Algorithm kAlgorithms[] = {
    {ConvAlgorithm::gemm, OpClass::matmul, conv2d_gemm_takes, conv2d_forward_gemm, conv2d_backward_data_gemm,
     conv2d_backward_weights_gemm},
    {ConvAlgorithm::winograd, OpClass::winograd, conv2d_winograd_takes, conv2d_forward_winograd,
     conv2d_backward_data_winograd, conv2d_backward_weights_winograd},
};

Tensors<float> run(const Algorithm& algorithm, const Conv2dShape& shape) {
  Tensors<float> t(shape);
  algorithm.forward(t.x.data(), t.weight.data(), t.bias.data(), t.y.data(), shape);
  algorithm.backward_data(t.grad_y.data(), t.weight.data(), t.grad_x.data(), shape);
  algorithm.backward_weights(t.x.data(), t.grad_y.data(), t.grad_weight.data(), shape);
  return t;
}

Conv2dShape square(int64_t n, int64_t size, int64_t c, int64_t k, int64_t filter, int64_t stride, int64_t pad) {
  return {.n = n,
          .h = size,
          .w = size,
          .c = c,
          .k = k,
          .r = filter,
          .s = filter,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

// Pictures of one pixel, edges of tiles, all phases of strides, panels and groups that channels do not fill, more than
// one block of everything that is blocked.
std::vector<Conv2dShape> sweep() {
  std::vector<Conv2dShape> shapes = {
      square(2, 7, 64, 80, 1, 1, 0),   square(1, 1, 16, 16, 1, 1, 0),     square(3, 9, 20, 30, 1, 2, 0),
      square(2, 8, 300, 70, 1, 1, 0),  square(1, 7, 64, 64, 3, 1, 1),     square(2, 4, 16, 32, 3, 1, 1),
      square(1, 1, 32, 16, 3, 1, 1),   square(2, 13, 48, 80, 3, 1, 1),    square(1, 12, 16, 16, 3, 1, 0),
      square(1, 6, 16, 48, 3, 1, 2),   square(9, 14, 32, 32, 3, 1, 1),    square(1, 40, 64, 16, 3, 1, 1),
      square(2, 5, 272, 288, 3, 1, 1), square(130, 1, 240, 256, 3, 1, 1), square(2, 9, 32, 48, 3, 2, 1),
      square(2, 10, 17, 33, 3, 2, 1),  square(1, 19, 3, 20, 7, 2, 3),     square(2, 8, 12, 9, 5, 3, 2),
      square(1, 5, 4, 6, 2, 3, 0),     square(1, 4, 8, 8, 4, 1, 3),       square(1, 3, 5, 7, 1, 2, 1),
  };
  shapes.push_back({.n = 2, .h = 7, .w = 11, .c = 32, .k = 48, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1});
  shapes.push_back(
      {.n = 2, .h = 9, .w = 6, .c = 10, .k = 12, .r = 3, .s = 2, .stride_h = 2, .stride_w = 3, .pad_h = 1});
  return shapes;
}

TEST(ConvAlgorithms, AgreeWithTheReferenceInDouble) {
  for (const Conv2dShape& shape : sweep()) {
    Tensors<double> want(shape);
    conv2d_forward_cpu(want.x.data(), want.weight.data(), want.bias.data(), want.y.data(), shape);
    conv2d_backward_data_cpu(want.grad_y.data(), want.weight.data(), want.grad_x.data(), shape);
    conv2d_backward_weights_cpu<double>(want.x.data(), want.grad_y.data(), want.grad_weight.data(), nullptr, shape);
    for (const Algorithm& algorithm : kAlgorithms) {
      if (!algorithm.takes(shape)) continue;
      const std::string what = shape.str() + " algorithm " + std::to_string(static_cast<int>(algorithm.name)) + ' ';
      const Tensors<float> got = run(algorithm, shape);
      const auto limit = [&](int64_t length) { return tolerance<float>(length, algorithm.op_class); };
      const int64_t taps = shape.r * shape.s;
      ExpectClose(got.y, want.y, limit(taps * shape.c), what + "y");
      ExpectClose(got.grad_x, want.grad_x, limit(taps * shape.k), what + "grad_x");
      ExpectClose(got.grad_weight, want.grad_weight, limit(shape.y_numel() / shape.k), what + "grad_weight");
    }
  }
}

TEST(ConvAlgorithms, RepeatBitForBitAndForwardDoesNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  for (const Conv2dShape& shape : sweep()) {
    for (const Algorithm& algorithm : kAlgorithms) {
      if (!algorithm.takes(shape)) continue;
      omp_set_num_threads(3);
      const Tensors<float> first = run(algorithm, shape), second = run(algorithm, shape);
      omp_set_num_threads(1);
      const Tensors<float> single = run(algorithm, shape);
      EXPECT_EQ(first.y, second.y) << shape.str();
      EXPECT_EQ(first.grad_x, second.grad_x) << shape.str();
      EXPECT_EQ(first.grad_weight, second.grad_weight) << shape.str();
      EXPECT_EQ(first.y, single.y) << shape.str();
      EXPECT_EQ(first.grad_x, single.grad_x) << shape.str();
    }
  }
  omp_set_num_threads(threads);
}

TEST(ConvAlgorithms, WorkInsideOfAParallelRegion) {
  const Conv2dShape shape = square(2, 13, 32, 48, 3, 1, 1);
  for (const Algorithm& algorithm : kAlgorithms) {
    const Tensors<float> want = run(algorithm, shape);
    int different = 0;
#pragma omp parallel for num_threads(3) reduction(+ : different)
    for (int i = 0; i < 6; ++i) {
      const Tensors<float> got = run(algorithm, shape);
      different += got.y != want.y || got.grad_x != want.grad_x;
    }
    EXPECT_EQ(different, 0);
  }
}

TEST(ConvAlgorithms, TakeOnlyWhatTheyCompute) {
  Conv2dShape shape = square(2, 8, 32, 32, 3, 1, 1);
  EXPECT_TRUE(conv2d_gemm_takes(shape));
  EXPECT_TRUE(conv2d_winograd_takes(shape));
  shape.stride_w = 2;
  EXPECT_FALSE(conv2d_winograd_takes(shape));
  shape.dilation_h = 2;
  EXPECT_FALSE(conv2d_gemm_takes(shape));
  EXPECT_FALSE(conv2d_gemm_takes({.n = 1, .h = 4, .w = 4, .c = 4, .k = 4, .r = 3, .s = 3, .groups = 2}));
  EXPECT_FALSE(conv2d_winograd_takes(square(2, 8, 20, 32, 3, 1, 1)));
  EXPECT_FALSE(conv2d_winograd_takes(square(2, 8, 32, 32, 3, 1, 3)));
}

TEST(ConvAlgorithms, ResNet50TakesWinogradForItsThirteenAndOneDnnWhereItIsFaster) {
  if (!kWideVectors) GTEST_SKIP() << "vectors of " << kLanes << " floats leave all to oneDNN";
  int winograd = 0;
  for (const bench::NamedConvolution& convolution : bench::resnet50_convolutions(16)) {
    const ConvAlgorithm forward = conv2d_select(convolution.shape, ConvDirection::forward);
    if (forward == ConvAlgorithm::winograd) winograd += convolution.count;
    EXPECT_TRUE(convolution.name != "stem" || forward == ConvAlgorithm::onednn);
  }
  EXPECT_EQ(winograd, 13);
}

// A block's convolutions hold less scratch memory than a tenth of a gigabyte, however many filters they have.
TEST(ConvAlgorithms, ScratchMemoryOfResNet50IsBounded) {
  constexpr int64_t kMost = 100 << 20;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(2);
  onednn_release_scratch();
  for (const int64_t channels : {64, 512}) {
    const Conv2dShape shape = square(16, channels == 64 ? 56 : 7, channels, channels, 3, 1, 1);
    for (const Algorithm& algorithm : kAlgorithms) run(algorithm, shape);
  }
  EXPECT_GT(onednn_scratch_bytes(), 0);
  EXPECT_LT(onednn_scratch_bytes(), kMost);
  onednn_release_scratch();
  omp_set_num_threads(threads);
}

TEST(Patches, AreTheDefinitionsPixels) {
  const Conv2dShape shape{
      .n = 2, .h = 5, .w = 6, .c = 3, .k = 1, .r = 3, .s = 2, .stride_h = 2, .pad_h = 2, .pad_w = 1};
  const std::vector<float> x = uniform<float>(shape.x_numel(), 5);
  const Patches patches = patches_of(x.data(), shape);
  const int64_t depth = patches.depth();
  std::vector<float> got(static_cast<size_t>(patches.rows() * depth)), want;
  copy_patches(patches, {0, patches.rows()}, {0, depth}, got.data(), depth);
  for (int64_t row = 0; row < patches.rows(); ++row) {
    for (int64_t p = 0; p < depth; ++p) {
      const int64_t i = row / shape.out_w() % shape.out_h() * 2 - 2 + p / (shape.s * shape.c);
      const int64_t j = row % shape.out_w() - 1 + p / shape.c % shape.s;
      const int64_t b = row / (shape.out_h() * shape.out_w());
      const bool inside = i >= 0 && i < shape.h && j >= 0 && j < shape.w;
      want.push_back(inside ? x[static_cast<size_t>(((b * shape.h + i) * shape.w + j) * shape.c + p % shape.c)] : 0.0F);
    }
  }
  EXPECT_EQ(got, want);
  std::vector<float> part(7 * 20, -1.0F);
  copy_patches(patches, {9, 16}, {4, 15}, part.data(), 20);
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t p = 0; p < 11; ++p) {
      EXPECT_EQ(part[static_cast<size_t>(i * 20 + p)], want[static_cast<size_t>((9 + i) * depth + 4 + p)]);
    }
  }
}

}  // namespace
}  // namespace engine::kernels
