#include "kernels/conv2d/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/convolutions.h"
#include "kernels/common/lru_cache.h"
#include "kernels/common/onednn.h"
#include "kernels/common/philox.h"
#include "tests/support/tolerance.h"

namespace engine::kernels {
namespace {

using testing::ExpectClose;
using testing::OpClass;
using testing::tolerance;

constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weights};

template <typename T>
std::vector<T> uniform(int64_t count, uint64_t key) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(2 * Philox::uniform(Philox::block(key, i, 0)[0]) - 1);
  }
  return values;
}

template <typename T>
std::vector<T> empty(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count), std::numeric_limits<T>::quiet_NaN());
}

template <typename T>
struct Operands {
  explicit Operands(const Conv2dShape& shape)
      : x(uniform<T>(shape.x_numel(), 1)),
        weight(uniform<T>(shape.weight_numel(), 2)),
        bias(uniform<T>(shape.k, 3)),
        grad_y(uniform<T>(shape.y_numel(), 4)) {}
  std::vector<T> x, weight, bias, grad_y;
};

template <typename T>
struct Results {
  explicit Results(const Conv2dShape& shape)
      : y(empty<T>(shape.y_numel())),
        grad_x(empty<T>(shape.x_numel())),
        grad_weight(empty<T>(shape.weight_numel())),
        grad_bias(empty<T>(shape.k)) {}
  std::vector<T> y, grad_x, grad_weight, grad_bias;
};

template <typename T>
Results<T> reference(const Operands<T>& in, const Conv2dShape& shape) {
  Results<T> out(shape);
  conv2d_forward_cpu(in.x.data(), in.weight.data(), in.bias.data(), out.y.data(), shape);
  conv2d_backward_data_cpu(in.grad_y.data(), in.weight.data(), out.grad_x.data(), shape);
  conv2d_backward_weights_cpu(in.x.data(), in.grad_y.data(), out.grad_weight.data(), out.grad_bias.data(), shape);
  return out;
}

Results<float> fast(const Operands<float>& in, const Conv2dShape& shape) {
  Results<float> out(shape);
  conv2d_forward_fast(in.x.data(), in.weight.data(), in.bias.data(), out.y.data(), shape);
  conv2d_backward_data_fast(in.grad_y.data(), in.weight.data(), out.grad_x.data(), shape);
  conv2d_backward_weights_fast(in.x.data(), in.grad_y.data(), out.grad_weight.data(), out.grad_bias.data(), shape);
  return out;
}

// The header's definition, one output value at a time.
double definition(const Operands<double>& in, const Conv2dShape& p, int64_t b, int64_t i, int64_t j, int64_t q) {
  const int64_t group_c = p.c / p.groups, group = q / (p.k / p.groups);
  double sum = in.bias[static_cast<size_t>(q)];
  for (int64_t u = 0; u < p.r; ++u) {
    for (int64_t v = 0; v < p.s; ++v) {
      for (int64_t e = 0; e < group_c; ++e) {
        const int64_t row = i * p.stride_h - p.pad_h + u * p.dilation_h;
        const int64_t column = j * p.stride_w - p.pad_w + v * p.dilation_w;
        if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
        sum += in.weight[static_cast<size_t>(((q * p.r + u) * p.s + v) * group_c + e)] *
               in.x[static_cast<size_t>(((b * p.h + row) * p.w + column) * p.c + group * group_c + e)];
      }
    }
  }
  return sum;
}

const std::vector<Conv2dShape>& sweep() {
  static const std::vector<Conv2dShape> shapes = {
      {.n = 2, .h = 8, .w = 8, .c = 16, .k = 32, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1},
      {.n = 3, .h = 7, .w = 9, .c = 5, .k = 7, .r = 3, .s = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1, .pad_w = 0},
      {.n = 1,
       .h = 11,
       .w = 10,
       .c = 4,
       .k = 6,
       .r = 3,
       .s = 3,
       .pad_h = 2,
       .pad_w = 2,
       .dilation_h = 2,
       .dilation_w = 3},
      {.n = 2, .h = 9, .w = 9, .c = 8, .k = 12, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 4},
      {.n = 2, .h = 9, .w = 8, .c = 24, .k = 24, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 24},
      {.n = 2,
       .h = 10,
       .w = 10,
       .c = 32,
       .k = 32,
       .r = 5,
       .s = 5,
       .stride_h = 2,
       .stride_w = 2,
       .pad_h = 2,
       .pad_w = 2,
       .groups = 32},
      {.n = 2, .h = 5, .w = 5, .c = 3, .k = 6, .r = 3, .s = 3, .groups = 3},
      {.n = 2, .h = 28, .w = 28, .c = 1, .k = 32, .r = 3, .s = 3},
      {.n = 2, .h = 32, .w = 32, .c = 3, .k = 64, .r = 7, .s = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3},
      {.n = 2, .h = 17, .w = 13, .c = 3, .k = 20, .r = 7, .s = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3},
      {.n = 4, .h = 1, .w = 1, .c = 64, .k = 48, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1},
      {.n = 3, .h = 2, .w = 2, .c = 33, .k = 17, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
      {.n = 2, .h = 1, .w = 1, .c = 64, .k = 128, .r = 1, .s = 1},
      {.n = 2, .h = 7, .w = 7, .c = 64, .k = 80, .r = 1, .s = 1},
      {.n = 2, .h = 7, .w = 7, .c = 64, .k = 96, .r = 1, .s = 1, .stride_h = 2, .stride_w = 2},
      {.n = 2, .h = 8, .w = 6, .c = 30, .k = 50, .r = 1, .s = 1, .stride_h = 3, .stride_w = 2, .pad_h = 1, .pad_w = 1},
      {.n = 1, .h = 14, .w = 14, .c = 64, .k = 64, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1},
      {.n = 2, .h = 15, .w = 13, .c = 48, .k = 64, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1},
      {.n = 2, .h = 12, .w = 18, .c = 32, .k = 16, .r = 3, .s = 3},
      {.n = 1, .h = 6, .w = 6, .c = 16, .k = 16, .r = 3, .s = 3, .pad_h = 3, .pad_w = 3},
      {.n = 5, .h = 4, .w = 4, .c = 2, .k = 3, .r = 4, .s = 4},
      {.n = 1, .h = 1, .w = 1, .c = 1, .k = 1},
  };
  return shapes;
}

TEST(Conv2d, ReferenceFollowsTheDefinition) {
  for (const Conv2dShape& shape : sweep()) {
    const Operands<double> in(shape);
    const Results<double> out = reference(in, shape);
    std::vector<double> want;
    for (int64_t index = 0; index < shape.y_numel(); ++index) {
      const int64_t q = index % shape.k, j = index / shape.k % shape.out_w();
      const int64_t i = index / (shape.k * shape.out_w()) % shape.out_h();
      want.push_back(definition(in, shape, index / (shape.k * shape.out_w() * shape.out_h()), i, j, q));
    }
    ExpectClose(out.y, want, tolerance<double>(shape.r * shape.s * shape.c, OpClass::matmul), shape.str());
  }
}

TEST(Conv2d, OnesCountTheTapsInsideTheImage) {
  const Conv2dShape shape{.n = 1, .h = 3, .w = 3, .c = 2, .k = 1, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1};
  const std::vector<float> x(18, 1.0F), weight(18, 1.0F);
  std::vector<float> y(9);
  conv2d_forward_fast(x.data(), weight.data(), nullptr, y.data(), shape);
  EXPECT_EQ(y, (std::vector<float>{8, 12, 8, 12, 18, 12, 8, 12, 8}));
}

// The output is linear in x and in the weights, so a central difference has no truncation error.
TEST(Conv2d, ReferenceGradientsAreFiniteDifferences) {
  for (const Conv2dShape& shape : sweep()) {
    if (shape.macs() > 100'000) continue;
    Operands<double> in(shape);
    const Results<double> out = reference(in, shape);
    const auto loss = [&] {
      std::vector<double> y = empty<double>(shape.y_numel());
      conv2d_forward_cpu(in.x.data(), in.weight.data(), in.bias.data(), y.data(), shape);
      return std::inner_product(y.begin(), y.end(), in.grad_y.begin(), 0.0);
    };
    const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient, const char* what) {
      std::vector<double> got, want;
      for (size_t i = 0; i < values.size(); i += 1 + values.size() / 40) {
        const double kept = values[i], step = 0.5;
        values[i] = kept + step;
        const double above = loss();
        values[i] = kept - step;
        want.push_back((above - loss()) / (2 * step));
        values[i] = kept;
        got.push_back(gradient[i]);
      }
      ExpectClose(got, want, tolerance<double>(0, OpClass::finite_difference), what + shape.str());
    };
    check(in.x, out.grad_x, "grad_x ");
    check(in.weight, out.grad_weight, "grad_weight ");
    check(in.bias, out.grad_bias, "grad_bias ");
  }
}

OpClass op_class(const Conv2dShape& shape, ConvDirection direction) {
  const bool winograd = conv2d_implementation(shape, direction).find("winograd") != std::string::npos;
  return winograd ? OpClass::winograd : OpClass::matmul;
}

TEST(Conv2d, FastPathAgreesWithTheReferenceInDouble) {
  for (const Conv2dShape& shape : sweep()) {
    const Operands<double> exact(shape);
    const Results<double> want = reference(exact, shape);
    const Results<float> got = fast(Operands<float>(shape), shape);
    const int64_t taps = shape.r * shape.s, pixels = shape.n * shape.out_h() * shape.out_w();
    const auto limit = [&](int64_t length, ConvDirection direction) {
      return tolerance<float>(length, op_class(shape, direction));
    };
    ExpectClose(got.y, want.y, limit(taps * shape.c / shape.groups, ConvDirection::forward), "y " + shape.str());
    ExpectClose(got.grad_x, want.grad_x, limit(taps * shape.k / shape.groups, ConvDirection::backward_data),
                "grad_x " + shape.str());
    ExpectClose(got.grad_weight, want.grad_weight, limit(pixels, ConvDirection::backward_weights),
                "grad_weight " + shape.str());
    ExpectClose(got.grad_bias, want.grad_bias, tolerance<float>(pixels, OpClass::reduction),
                "grad_bias " + shape.str());
  }
}

TEST(Conv2d, FloatReferenceAgreesWithDouble) {
  const Conv2dShape shape = sweep()[1];
  const Results<double> want = reference(Operands<double>(shape), shape);
  const Results<float> got = reference(Operands<float>(shape), shape);
  const double limit = tolerance<float>(1, OpClass::matmul);
  ExpectClose(got.y, want.y, limit, "y");
  ExpectClose(got.grad_x, want.grad_x, limit, "grad_x");
  ExpectClose(got.grad_weight, want.grad_weight, limit, "grad_weight");
  ExpectClose(got.grad_bias, want.grad_bias, limit, "grad_bias");
}

TEST(Conv2d, BiasIsAddedOnceToEachPixel) {
  const Conv2dShape shape = sweep()[0];
  const Operands<float> in(shape);
  std::vector<float> with = empty<float>(shape.y_numel()), without = with;
  conv2d_forward_fast(in.x.data(), in.weight.data(), in.bias.data(), with.data(), shape);
  conv2d_forward_fast(in.x.data(), in.weight.data(), nullptr, without.data(), shape);
  for (size_t i = 0; i < without.size(); ++i) without[i] += in.bias[i % static_cast<size_t>(shape.k)];
  ExpectClose(with, without, tolerance<float>(shape.r * shape.s * shape.c, OpClass::matmul));
}

TEST(Conv2d, RepeatsBitForBit) {
  for (const Conv2dShape& shape : sweep()) {
    const Operands<float> in(shape);
    const Results<float> first = fast(in, shape), second = fast(in, shape);
    EXPECT_EQ(first.y, second.y) << shape.str();
    EXPECT_EQ(first.grad_x, second.grad_x) << shape.str();
    EXPECT_EQ(first.grad_weight, second.grad_weight) << shape.str();
    EXPECT_EQ(first.grad_bias, second.grad_bias) << shape.str();
  }
}

TEST(Conv2d, ScratchMemoryStaysAtTheLargestCall) {
  onednn_release_scratch();
  for (const Conv2dShape& shape : sweep()) fast(Operands<float>(shape), shape);
  const int64_t after_first_round = onednn_scratch_bytes();
  EXPECT_GT(after_first_round, 0);
  for (const Conv2dShape& shape : sweep()) fast(Operands<float>(shape), shape);
  EXPECT_EQ(onednn_scratch_bytes(), after_first_round);
  onednn_release_scratch();
  EXPECT_EQ(onednn_scratch_bytes(), 0);
}

TEST(Conv2d, ThreadsMayCallAtOnce) {
  const Conv2dShape shape = sweep()[0];
  const Operands<float> in(shape);
  const Results<float> want = fast(in, shape);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        const Results<float> got = fast(in, shape);
        EXPECT_EQ(got.y, want.y);
        EXPECT_EQ(got.grad_x, want.grad_x);
        EXPECT_EQ(got.grad_weight, want.grad_weight);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// oneDNN silently has plain loops for what its fast kernels refuse: 8 s for one call of the stem in some layouts.
TEST(Conv2d, ModelsNeverMeetAReferenceKernel) {
  const int64_t before = conv2d_fallbacks();
  for (const auto& [batch, picture] : {std::pair{16, 224}, {128, 32}, {64, 64}, {1, 224}}) {
    std::vector<bench::NamedConvolution> list = bench::resnet50_convolutions(batch, picture);
    list.push_back(bench::simple_cnn_convolution(batch));
    for (const bench::NamedConvolution& convolution : list) {
      for (const ConvDirection direction : kDirections) {
        EXPECT_EQ(conv2d_implementation(convolution.shape, direction).find("ref"), std::string::npos)
            << convolution.name << ' ' << convolution.shape.str() << " direction " << static_cast<int>(direction);
      }
    }
  }
  EXPECT_EQ(conv2d_fallbacks(), before);
}

TEST(Conv2d, TheListOfConvolutionsIsResNet50) {
  int count = 0;
  int64_t macs = 0, parameters = 0;
  for (const bench::NamedConvolution& convolution : bench::resnet50_convolutions(1)) {
    count += convolution.count;
    macs += convolution.count * convolution.shape.macs();
    parameters += convolution.count * convolution.shape.weight_numel();
  }
  EXPECT_EQ(count, 53);
  EXPECT_EQ(macs, 4'087'136'256);     // 4.089 G published for the model, less the classifier's 2 M
  EXPECT_EQ(parameters, 23'454'912);  // 25,557,032 less the classifier's 2,049,000 and batch norm's 53,120
}

TEST(Conv2d, RefusesImpossibleShapes) {
  const Conv2dShape good{.n = 1, .h = 4, .w = 4, .c = 4, .k = 4, .r = 3, .s = 3};
  std::vector<Conv2dShape> bad(6, good);
  bad[0].n = 0;
  bad[1].stride_w = 0;
  bad[2].pad_h = -1;
  bad[3].groups = 3;
  bad[4].r = 5;
  bad[5].dilation_w = 2;
  EXPECT_TRUE(good.valid());
  std::vector<float> values(4096, 0.0F);
  for (const Conv2dShape& shape : bad) {
    EXPECT_FALSE(shape.valid()) << shape.str();
    EXPECT_THROW(conv2d_forward_fast(values.data(), values.data(), nullptr, values.data(), shape),
                 std::invalid_argument);
    EXPECT_THROW(conv2d_backward_data_cpu(values.data(), values.data(), values.data(), shape), std::invalid_argument);
  }
}

TEST(LruCache, ForgetsTheOldestAndMakesNothingTwice) {
  LruCache<int, int, std::hash<int>> cache(2);
  int made = 0;
  const auto make = [&made](int key) {
    ++made;
    return std::make_shared<int>(10 * key);
  };
  const auto held = cache.get(1, make);
  cache.get(2, make);
  cache.get(1, make);
  EXPECT_EQ(made, 2);
  cache.get(3, make);  // forgets 2
  EXPECT_EQ(cache.size(), 2U);
  cache.get(1, make);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(*cache.get(2, make), 20);  // forgets 3
  EXPECT_EQ(made, 4);
  cache.get(3, make);  // forgets 1, which its holder keeps
  EXPECT_EQ(*held, 10);
}

}  // namespace
}  // namespace engine::kernels
