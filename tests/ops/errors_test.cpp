// What ops say of bad arguments: the op, what was got, what was expected; before anything is allocated.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/bn_relu_max_pool.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/dropout.h"
#include "engine/ops/linear.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

Tensor of(const Shape& shape, DType dtype = DType::f32) { return Tensor::zeros(shape, dtype); }
Tensor turned(const Shape& shape) { return of(shape).transpose(0, 1); }

/// `f` throws "[op] ARGUMENT ... got ..., expected ...", also with each of `parts`, and has allocated nothing.
void expect_refused(const std::string& op, const std::function<void()>& f, std::vector<std::string> parts = {}) {
  reset_memory_peaks();
  const int64_t before = memory_stats().peak_total;
  const std::string message = message_of<Error>(f);
  EXPECT_EQ(memory_stats().peak_total, before) << op << " allocated before it refused";
  parts.insert(parts.end(), {"got", "expected"});
  EXPECT_EQ(message.rfind("[" + op + "] ", 0), 0u) << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

TEST(OpErrors, Conv2d) {
  const Tensor x = of({2, 5, 5, 4}), w = of({6, 3, 3, 4}), bias = of({6}), wide = of({2, 2}),
               doubles = of({6, 3, 3, 4}, DType::f64);
  const auto refused = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Conv2dOptions& options,
                           const std::vector<std::string>& parts) {
    expect_refused(
        "conv2d", [&] { conv2d(a, b, c, options); }, parts);
  };
  refused(Tensor(), w, bias, {}, {"x:", "undefined"});
  refused(x, Tensor(), bias, {}, {"weight:", "undefined"});
  refused(wide, w, bias, {}, {"x:", "[2, 2]", "rank 4"});
  refused(x, wide, bias, {}, {"weight:", "[2, 2]", "rank 4"});
  refused(x, doubles, bias, {}, {"weight:", "f64", "f32"});
  refused(x, w, wide, {}, {"bias:", "[2, 2]", "[6]"});
  refused(of({2, 5, 5, 3}), w, bias, {}, {"x:", "3 channels", "4"});
  refused(x, w, bias, {.stride = 0}, {"stride 0"});
  refused(x, w, bias, {.padding = -1}, {"padding -1"});
  refused(x, w, bias, {.dilation = 0}, {"dilation 0"});
  refused(x, w, bias, {.groups = 0}, {"groups: got 0"});
  refused(x, w, bias, {.groups = 3}, {"groups: got 3"});
  refused(x, w, bias, {.dilation = 3}, {"x:", "[2, 5, 5, 4]", "fits into"});
  refused(of({2, 2, 5, 4}), w, bias, {}, {"x:", "[2, 2, 5, 4]"});
  refused(turned({5, 2, 5, 4}), w, bias, {}, {"x:", "contiguous"});
  refused(of({2, 5, 5, 4}, DType::i64), w, bias, {}, {"x:", "i64"});
}

TEST(OpErrors, LinearAndMatmul) {
  const Tensor x = of({2, 4}), w = of({3, 4}), bias = of({3}), cube = of({2, 2, 2}), other = of({3, 5});
  expect_refused("linear", [&] { linear(Tensor(), w); }, {"x:", "undefined"});
  expect_refused("linear", [&] { linear(x, Tensor()); }, {"weight:", "undefined"});
  expect_refused("linear", [&] { linear(cube, w); }, {"x:", "[2, 2, 2]"});
  expect_refused("linear", [&] { linear(x, cube); }, {"weight:", "[2, 2, 2]"});
  expect_refused("linear", [&] { linear(x, other); }, {"weight:", "[3, 5]", "[3, 4]"});
  expect_refused("linear", [&] { linear(x, w, x); }, {"bias:", "[2, 4]", "[3]"});
  expect_refused("matmul", [&] { matmul(x, w); }, {"b:", "[3, 4]", "[4, 4]"});
  expect_refused("matmul", [&] { matmul(cube, w); }, {"a:", "[2, 2, 2]"});
  expect_refused("matmul", [&] { matmul(x, Tensor()); }, {"b:", "undefined"});
}

TEST(OpErrors, BatchNorm) {
  const Tensor x = of({2, 3, 3, 4}), c = of({4}), wrong = of({5}), single = of({1, 1, 1, 4}), row = of({4}),
               other = of({2, 3, 3, 5});
  const auto refused = [&](const Tensor& input, const BatchNormState& state, const Tensor& residual,
                           const std::vector<std::string>& parts) {
    expect_refused(
        "batch_norm", [&] { batch_norm(input, state, {}, residual); }, parts);
  };
  refused(Tensor(), {c, c, c, c}, {}, {"x:", "undefined"});
  refused(row, {c, c, c, c}, {}, {"x:", "[4]"});
  refused(x, {wrong, c, c, c}, {}, {"weight:", "[5]", "[4]"});
  refused(x, {c, Tensor(), c, c}, {}, {"bias:", "undefined"});
  refused(x, {c, c, wrong, c}, {}, {"running_mean:", "[5]", "[4]"});
  refused(x, {c, c, c, wrong}, {}, {"running_var:", "[5]", "[4]"});
  refused(x, {c, c, c, c}, other, {"residual:", "[2, 3, 3, 5]", "[2, 3, 3, 4]"});
  refused(single, {c, c, c, c}, {}, {"x:", "[1, 1, 1, 4]", "more than one value"});
  // In evaluation one value is enough.
  EXPECT_EQ(batch_norm(single, {c, c, c, c}, {.training = false}).shape(), single.shape());
}

TEST(OpErrors, Pools) {
  const Tensor x = of({2, 5, 5, 3}), flat = of({2, 3}), none = of({2, 0, 5, 3});
  for (const auto& [op, pool] : {std::pair{"max_pool2d", &max_pool2d}, std::pair{"avg_pool2d", &avg_pool2d}}) {
    const auto refused = [&, f = pool, name = op](const Tensor& input, const Pool2dOptions& options,
                                                  const std::vector<std::string>& parts) {
      expect_refused(
          name, [&] { f(input, options); }, parts);
    };
    refused(Tensor(), {}, {"x:", "undefined"});
    refused(flat, {}, {"x:", "[2, 3]", "rank 4"});
    refused(x, {0, 1, 0}, {"kernel 0"});
    refused(x, {17, 1, 0}, {"kernel 17"});
    refused(x, {2, 0, 0}, {"stride 0"});
    refused(x, {2, 1, 2}, {"padding 2"});
    refused(x, {2, 1, -1}, {"padding -1"});
    refused(x, {6, 1, 0}, {"x:", "[2, 5, 5, 3]", "window of 6"});
  }
  expect_refused("global_avg_pool", [&] { global_avg_pool(flat); }, {"x:", "rank 4"});
  expect_refused("global_avg_pool", [&] { global_avg_pool(none); }, {"x:", "[2, 0, 5, 3]"});
  const Tensor c = of({3});
  expect_refused("bn_relu_max_pool", [&] { bn_relu_max_pool(x, {c, c, c, c}, {}, {9, 1, 0}); }, {"window of 9"});
}

TEST(OpErrors, ElementWise) {
  const Tensor x = of({2, 3}), other = of({3, 2}), doubles = of({2, 3}, DType::f64), gaps = turned({2, 3}),
               bytes = of({2}, DType::u8), whole = of({2}, DType::i64);
  expect_refused("add", [&] { add(x, other); }, {"b:", "[3, 2]", "[2, 3]"});
  expect_refused("add", [&] { add(x, doubles); }, {"b:", "f64", "f32"});
  expect_refused("add", [&] { add(Tensor(), x); }, {"a:", "undefined"});
  expect_refused("relu", [&] { relu(gaps); }, {"x:", "contiguous"});
  expect_refused("relu", [&] { relu(bytes); }, {"x:", "u8"});
  for (const double p : {-0.1, 1.5, std::nan("")}) {
    expect_refused("dropout", [&] { dropout(x, {.probability = p}); }, {"probability"});
  }
  expect_refused("dropout", [&] { dropout(Tensor(), {}); }, {"x:", "undefined"});
  expect_refused("cast", [&] { cast(Tensor(), DType::f64); }, {"x:", "undefined"});
  expect_refused("cast", [&] { cast(gaps, DType::f64); }, {"x:", "contiguous"});
  expect_refused("cast", [&] { cast(x, DType::i64); }, {"i64", "floating"});
  expect_refused("cast", [&] { cast(whole, DType::f32); }, {"x:", "i64"});
}

TEST(OpErrors, Loss) {
  const Tensor x = of({2, 3}), flat = of({6}), none = of({0, 3});
  const auto labels = [](const std::vector<int64_t>& values) {
    return Tensor::from_vector({static_cast<int64_t>(values.size())}, values);
  };
  const Tensor good = labels({0, 1}), three = labels({0, 1, 2}), negative = labels({0, -1}), high = labels({3, 0}),
               empty = labels({}), floats = of({2});
  const auto refused = [&](const Tensor& logits, const Tensor& truth, const CrossEntropyOptions& options,
                           const std::vector<std::string>& parts) {
    expect_refused(
        "softmax_cross_entropy", [&] { softmax_cross_entropy(logits, truth, options); }, parts);
  };
  refused(flat, good, {}, {"logits:", "[6]", "rank 2"});
  refused(x, three, {}, {"labels:", "[3]", "[2]"});
  refused(x, floats, {}, {"labels:", "f32", "i64"});
  refused(x, Tensor(), {}, {"labels:", "undefined"});
  refused(x, negative, {}, {"labels: got -1 in row 1", "0 to 2"});
  refused(x, high, {}, {"labels: got 3 in row 0", "0 to 2"});
  refused(none, empty, {}, {"logits:", "[0, 3]"});
  for (const double smoothing : {-0.1, 1.5, std::nan("")}) refused(x, good, {smoothing}, {"label_smoothing"});
  expect_refused("topk_correct", [&] { topk_correct(x, three, 1); }, {"labels:", "[3]"});
  for (const int64_t row : {-1, 2}) expect_refused("softmax_row", [&] { softmax_row(x, row); }, {"row", "[2, 3]"});
}

TEST(OpErrors, Views) {
  const Tensor x = of({2, 3}), gaps = turned({2, 3}), scalar = of({});
  expect_refused("reshape", [&] { reshape(x, {5}); }, {"[5]", "[2, 3]"});
  expect_refused("reshape", [&] { reshape(gaps, {6}); }, {"contiguous"});
  expect_refused("reshape", [&] { reshape(Tensor(), {1}); }, {"undefined"});
  expect_refused("flatten", [&] { flatten(scalar); }, {"[]"});
  expect_refused("flatten", [&] { flatten(Tensor()); }, {"undefined"});
  expect_refused("transpose", [&] { transpose(x, 0, 2); }, {"2", "[2, 3]"});
  expect_refused("transpose", [&] { transpose(x, -3, 0); }, {"-3", "[2, 3]"});
  expect_refused("narrow", [&] { narrow(x, 1, 2); }, {"[2, 3]"});
  expect_refused("narrow", [&] { narrow(x, -1, 1); }, {"-1", "[2, 3]"});
  expect_refused("narrow", [&] { narrow(x, 1, std::numeric_limits<int64_t>::max()); }, {"[2, 3]"});
  expect_refused("narrow", [&] { narrow(scalar, 0, 1); }, {"[]"});
}

}  // namespace
}  // namespace engine::testing
