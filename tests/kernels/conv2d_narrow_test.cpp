// Convolutions of 16-bit tensors, each algorithm by itself, against the plain reference in FP64 on the same numbers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <vector>

#include "bench/support/convolutions.h"
#include "kernels/common/onednn.h"
#include "kernels/common/storage_vec.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_onednn.h"
#include "kernels/conv2d/conv2d_through_floats.h"
#include "kernels/conv2d/conv2d_winograd.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::kernels {
namespace {

using testing::ExpectClose;
using testing::OpClass;
using testing::tolerance;

template <typename T>
struct Stored {
  Stored(int64_t count, uint64_t key) : narrow(static_cast<size_t>(count)), wide(static_cast<size_t>(count)) {
    const std::vector<float> values = testing::uniform<float>(count, key);
    for (size_t i = 0; i < values.size(); ++i) {
      narrow[i] = T(values[i]);
      wide[i] = static_cast<double>(static_cast<float>(narrow[i]));
    }
  }
  std::vector<T> narrow;
  std::vector<double> wide;
};

template <typename T>
std::vector<float> floats(const std::vector<T>& values) {
  std::vector<float> all(values.size());
  widen(values.data(), all.data(), static_cast<int64_t>(values.size()));
  return all;
}

template <typename T>
std::vector<T> unwritten(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count), T(std::nanf("")));
}

template <typename T>
struct Algorithm {
  const char* name;
  bool (*takes)(const Conv2dShape&);
  void (*forward)(const T*, const T*, const T*, T*, const Conv2dShape&);
  void (*backward_data)(const T*, const T*, T*, const Conv2dShape&);
  void (*backward_weights)(const T*, const T*, T*, const Conv2dShape&);
};

bool takes_all(const Conv2dShape&) { return true; }

constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weights};

bool onednn_takes(const Conv2dShape& shape) {
  return std::all_of(std::begin(kDirections), std::end(kDirections), [&](ConvDirection direction) {
    return conv2d_onednn_implementation<BFloat16>(shape, direction) != "reference";
  });
}

template <typename T>
std::vector<Algorithm<T>> algorithms() {
  std::vector<Algorithm<T>> all = {
      {"fast", takes_all, [](auto... args) { conv2d_forward_fast<T>(args...); }, conv2d_backward_data_fast<T>,
       [](const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
         conv2d_backward_weights_fast(x, grad_y, grad_weight, nullptr, shape);
       }},
      {"gemm", conv2d_gemm_takes, conv2d_forward_gemm<T>, conv2d_backward_data_gemm<T>,
       conv2d_backward_weights_gemm<T>},
      {"winograd", conv2d_winograd_takes, conv2d_forward_winograd<T>, conv2d_backward_data_winograd<T>,
       conv2d_backward_weights_winograd<T>},
      {"through floats", takes_all, conv2d_forward_through_floats<T>, conv2d_backward_data_through_floats<T>,
       conv2d_backward_weights_through_floats<T>},
  };
  // oneDNN's own kernels work, slowly, on processors that lack the instructions.
  if constexpr (std::is_same_v<T, BFloat16>) {
    all.push_back({"onednn", onednn_takes, [](auto... args) { EXPECT_TRUE(conv2d_forward_onednn(args...)); },
                   [](auto... args) { EXPECT_TRUE(conv2d_backward_data_onednn(args...)); },
                   [](auto... args) { EXPECT_TRUE(conv2d_backward_weights_onednn(args...)); }});
  }
  return all;
}

std::vector<Conv2dShape> shapes() {
  return {
      {.n = 2, .h = 18, .w = 15, .c = 32, .k = 48, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1},
      {.n = 2, .h = 9, .w = 12, .c = 80, .k = 600},  // more than one group of columns waits to be rounded
      {.n = 3, .h = 7, .w = 7, .c = 300, .k = 40, .stride_h = 2, .stride_w = 2},
      {.n = 3, .h = 7, .w = 9, .c = 5, .k = 7, .r = 3, .s = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1},
      {.n = 2, .h = 30, .w = 30, .c = 3, .k = 64, .r = 7, .s = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3},
      {.n = 2, .h = 9, .w = 9, .c = 8, .k = 12, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 2},
  };
}

template <typename T>
class Conv2dNarrow : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Conv2dNarrow, Types);

TYPED_TEST(Conv2dNarrow, EachAlgorithmRoundsTheSumOnce) {
  using T = TypeParam;
  const double roundoff = std::is_same_v<T, Half> ? testing::kUnitRoundoffF16 : testing::kUnitRoundoffBf16;
  const auto tol = [&](int64_t length) { return roundoff + tolerance<float>(length, OpClass::winograd); };
  for (const Conv2dShape& shape : shapes()) {
    const Stored<T> x(shape.x_numel(), 1), weight(shape.weight_numel(), 2), bias(shape.k, 3),
        grad_y(shape.y_numel(), 4);
    std::vector<double> want_y(grad_y.wide.size()), want_x(x.wide.size()), want_w(weight.wide.size());
    conv2d_forward_cpu(x.wide.data(), weight.wide.data(), bias.wide.data(), want_y.data(), shape);
    conv2d_backward_data_cpu(grad_y.wide.data(), weight.wide.data(), want_x.data(), shape);
    conv2d_backward_weights_cpu<double>(x.wide.data(), grad_y.wide.data(), want_w.data(), nullptr, shape);
    for (const Algorithm<T>& algorithm : algorithms<T>()) {
      if (!algorithm.takes(shape)) continue;
      SCOPED_TRACE(shape.str() + ' ' + algorithm.name);
      std::vector<T> y = unwritten<T>(shape.y_numel()), grad_x = unwritten<T>(shape.x_numel());
      std::vector<T> grad_weight = unwritten<T>(shape.weight_numel());
      algorithm.forward(x.narrow.data(), weight.narrow.data(), bias.narrow.data(), y.data(), shape);
      algorithm.backward_data(grad_y.narrow.data(), weight.narrow.data(), grad_x.data(), shape);
      algorithm.backward_weights(x.narrow.data(), grad_y.narrow.data(), grad_weight.data(), shape);
      ExpectClose(floats(y), want_y, tol(shape.r * shape.s * shape.c), "y");
      ExpectClose(floats(grad_x), want_x, tol(shape.r * shape.s * shape.k), "grad_x");
      ExpectClose(floats(grad_weight), want_w, tol(shape.y_numel() / shape.k), "grad_weight");
    }
  }
}

TYPED_TEST(Conv2dNarrow, BiasGradientAndManyPictures) {
  using T = TypeParam;
  // Converted in several chunks: 13 pictures of 64 K results each.
  const Conv2dShape shape{.n = 130, .h = 32, .w = 32, .c = 1, .k = 16, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1};
  const Stored<T> x(shape.x_numel(), 1), grad_y(shape.y_numel(), 4), weight(shape.weight_numel(), 2);
  std::vector<double> want(weight.wide.size()), want_bias(static_cast<size_t>(shape.k)), want_y(grad_y.wide.size());
  conv2d_backward_weights_cpu(x.wide.data(), grad_y.wide.data(), want.data(), want_bias.data(), shape);
  conv2d_forward_cpu<double>(x.wide.data(), weight.wide.data(), nullptr, want_y.data(), shape);
  std::vector<T> got = unwritten<T>(shape.weight_numel()), got_bias = unwritten<T>(shape.k);
  std::vector<T> y = unwritten<T>(shape.y_numel());
  conv2d_backward_weights_fast(x.narrow.data(), grad_y.narrow.data(), got.data(), got_bias.data(), shape);
  conv2d_forward_fast(x.narrow.data(), weight.narrow.data(), nullptr, y.data(), shape);
  const double roundoff = std::is_same_v<T, Half> ? testing::kUnitRoundoffF16 : testing::kUnitRoundoffBf16;
  const double tol = roundoff + tolerance<float>(shape.y_numel() / shape.k, OpClass::matmul);
  ExpectClose(floats(got), want, tol, "grad_weight");
  ExpectClose(floats(got_bias), want_bias, roundoff * 1.0001, "grad_bias");
  ExpectClose(floats(y), want_y, roundoff + tolerance<float>(9, OpClass::matmul), "y");
}

TYPED_TEST(Conv2dNarrow, RepeatsBitForBit) {
  using T = TypeParam;
  for (const Conv2dShape& shape : shapes()) {
    const Stored<T> x(shape.x_numel(), 1), grad_y(shape.y_numel(), 4);
    std::vector<T> first = unwritten<T>(shape.weight_numel()), second = first;
    conv2d_backward_weights_fast(x.narrow.data(), grad_y.narrow.data(), first.data(), nullptr, shape);
    conv2d_backward_weights_fast(x.narrow.data(), grad_y.narrow.data(), second.data(), nullptr, shape);
    testing::ExpectSameBits(first, second, shape.str().c_str());
  }
}

TEST(Conv2dNarrowModels, OneDnnHasKernelsForOrdinaryShapes) { EXPECT_TRUE(onednn_takes(shapes().front())); }

// A reference kernel of oneDNN's, or none, would cost seconds a call.
TEST(Conv2dNarrowModels, NeverMeetAReferenceKernel) {
  const int64_t before = conv2d_fallbacks();
  std::vector<bench::NamedConvolution> list = bench::resnet50_convolutions(16, 224);
  list.push_back(bench::simple_cnn_convolution(64));
  for (const bench::NamedConvolution& convolution : list) {
    for (const ConvDirection direction : kDirections) {
      for (const std::string& name : {conv2d_implementation<BFloat16>(convolution.shape, direction),
                                      conv2d_implementation<Half>(convolution.shape, direction)}) {
        EXPECT_EQ(name.find("ref"), std::string::npos)
            << convolution.name << ' ' << convolution.shape.str() << " direction " << static_cast<int>(direction);
      }
    }
  }
  EXPECT_EQ(conv2d_fallbacks(), before);
}

}  // namespace
}  // namespace engine::kernels
