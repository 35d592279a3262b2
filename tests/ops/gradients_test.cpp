// Every differentiable op against central differences in FP64.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/bn_relu_max_pool.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/dropout.h"
#include "engine/ops/linear.h"
#include "engine/ops/pad_channels.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/cases.h"
#include "tests/support/gradcheck.h"

namespace engine::testing {
namespace {

using Tensors = std::vector<Tensor>;

void check_conv2d(const std::string& what, const Shape& x, const Shape& weight, bool bias,
                  const Conv2dOptions& options) {
  Tensors inputs = {random_f64(x, 1), random_f64(weight, 2)};
  if (bias) inputs.push_back(random_f64(Shape{weight[0]}, 3));
  ExpectGradients("conv2d", what, inputs,
                  [&](const Tensors& in) { return conv2d(in[0], in[1], bias ? in[2] : Tensor(), options); });
}

TEST(Gradients, Conv2d) {
  check_conv2d("plain", {2, 5, 4, 2}, {3, 3, 3, 2}, false, {});
  check_conv2d("1x1 with bias", {2, 3, 3, 3}, {2, 1, 1, 3}, true, {});
  check_conv2d("stride", {1, 7, 6, 2}, {2, 3, 3, 2}, true, {.stride = 2});
  check_conv2d("padding", {2, 4, 4, 1}, {2, 3, 3, 1}, true, {.padding = 1});
  check_conv2d("stride and padding", {1, 7, 7, 2}, {3, 3, 3, 2}, false, {.stride = 2, .padding = 1});
  check_conv2d("dilation", {1, 7, 6, 2}, {2, 3, 2, 2}, true, {.padding = 1, .dilation = 2});
  check_conv2d("groups", {2, 4, 4, 4}, {6, 3, 3, 2}, true, {.padding = 1, .groups = 2});
  check_conv2d("depthwise", {1, 5, 5, 3}, {3, 3, 3, 1}, true, {.stride = 2, .padding = 1, .groups = 3});
  check_conv2d("all together", {2, 9, 8, 4}, {4, 3, 2, 2}, true, {2, 2, 2, 2});
  check_conv2d("stem", {1, 9, 9, 3}, {2, 7, 7, 3}, false, {.stride = 2, .padding = 3});
}

TEST(Gradients, Linear) {
  const Tensors inputs = {random_f64({3, 4}, 1), random_f64({5, 4}, 2), random_f64({5}, 3)};
  ExpectGradients("linear", "with bias", inputs, [](const Tensors& in) { return linear(in[0], in[1], in[2]); });
  ExpectGradients("linear", "without bias", {inputs[0], inputs[1]},
                  [](const Tensors& in) { return linear(in[0], in[1]); });
  ExpectGradients("linear", "of itself", {random_f64({3, 3}, 4)},
                  [](const Tensors& in) { return linear(in[0], in[0]); });
}

TEST(Gradients, Matmul) {
  ExpectGradients("matmul", "of two", {random_f64({3, 4}, 1), random_f64({4, 2}, 2)},
                  [](const Tensors& in) { return matmul(in[0], in[1]); });
  ExpectGradients("matmul", "of one with itself", {random_f64({3, 3}, 1)},
                  [](const Tensors& in) { return matmul(in[0], in[0]); });
}

Tensors norm_inputs(const Shape& x, bool residual) {
  const int64_t c = x[-1];
  Tensors inputs = {random_f64(x, 1), random_f64(Shape{c}, 2, 0.5, 1.5), random_f64(Shape{c}, 3)};
  if (residual) inputs.push_back(random_f64(x, 4));
  return inputs;
}

BatchNormState norm_state(const Tensors& in) {
  // Fresh statistics for each call: training moves them.
  return {in[1], in[2], random_f64(in[1].shape(), 5, -0.5, 0.5), random_f64(in[1].shape(), 6, 0.5, 1.5)};
}

TEST(Gradients, BatchNorm) {
  for (const bool training : {true, false}) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) {
        const auto f = [&](const Tensors& in) {
          return batch_norm(in[0], norm_state(in), {.training = training, .relu = relu}, residual ? in[3] : Tensor());
        };
        const std::string what =
            std::string(training ? "training" : "evaluation") + (relu ? " relu" : "") + (residual ? " residual" : "");
        ExpectGradients("batch_norm", what, norm_inputs({3, 3, 2, 3}, residual), f);
      }
    }
  }
  ExpectGradients("batch_norm", "of rows", norm_inputs({5, 2}, false),
                  [](const Tensors& in) { return batch_norm(in[0], norm_state(in)); });
  ExpectGradients("batch_norm", "x as its own residual", norm_inputs({3, 2, 2, 2}, false),
                  [](const Tensors& in) { return batch_norm(in[0], norm_state(in), {.relu = true}, in[0]); });
}

TEST(Gradients, BnReluMaxPool) {
  for (const bool training : {true, false}) {
    const auto f = [&](const Tensors& in) {
      return bn_relu_max_pool(in[0], norm_state(in), {.training = training, .relu = true}, {3, 2, 1});
    };
    Tensors inputs = norm_inputs({2, 5, 4, 2}, false);
    inputs[0] = spaced_f64({2, 5, 4, 2}, 1);
    ExpectGradients("bn_relu_max_pool", training ? "training" : "evaluation", inputs, f);
  }
}

TEST(Gradients, PadChannels) {
  ExpectGradients("pad_channels", "3 to 4", {random_f64({2, 5, 3}, 1)},
                  [](const Tensors& in) { return pad_channels(in[0], 4); });
}

TEST(Gradients, Relu) {
  ExpectGradients("relu", "of a leaf", {spaced_f64({3, 4}, 1)}, [](const Tensors& in) { return relu(in[0]); });
  ExpectGradients("relu", "of a relu", {spaced_f64({3, 4}, 2)}, [](const Tensors& in) { return relu(relu(in[0])); });
}

TEST(Gradients, Add) {
  ExpectGradients("add", "of two", {random_f64({2, 3}, 1), random_f64({2, 3}, 2)},
                  [](const Tensors& in) { return add(in[0], in[1]); });
  ExpectGradients("add", "of one with itself", {random_f64({2, 3}, 1)},
                  [](const Tensors& in) { return add(in[0], in[0]); });
}

TEST(Gradients, MaxPool2d) {
  for (const Pool2dOptions& options : {Pool2dOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 1}}) {
    ExpectGradients("max_pool2d", "kernel " + std::to_string(options.kernel), {spaced_f64({2, 6, 5, 2}, 1)},
                    [&](const Tensors& in) { return max_pool2d(in[0], options); });
  }
}

TEST(Gradients, AvgPool2d) {
  for (const Pool2dOptions& options : {Pool2dOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 1}}) {
    ExpectGradients("avg_pool2d", "kernel " + std::to_string(options.kernel), {random_f64({2, 6, 5, 2}, 1)},
                    [&](const Tensors& in) { return avg_pool2d(in[0], options); });
  }
}

TEST(Gradients, GlobalAvgPool) {
  ExpectGradients("global_avg_pool", "", {random_f64({2, 3, 4, 3}, 1)},
                  [](const Tensors& in) { return global_avg_pool(in[0]); });
}

TEST(Gradients, Views) {
  const Tensor x = random_f64({3, 2, 4}, 1);
  ExpectGradients("reshape", "", {x}, [](const Tensors& in) { return reshape(in[0], {4, 6}); });
  ExpectGradients("flatten", "", {x}, [](const Tensors& in) { return flatten(in[0]); });
  ExpectGradients("transpose", "of outer axes", {x}, [](const Tensors& in) { return transpose(in[0], 0, 1); });
  ExpectGradients("transpose", "counted from the end", {x}, [](const Tensors& in) { return transpose(in[0], -1, 0); });
  ExpectGradients("narrow", "of the middle", {x}, [](const Tensors& in) { return narrow(in[0], 1, 1); });
  ExpectGradients("narrow", "of all", {x}, [](const Tensors& in) { return narrow(in[0], 0, 3); });
  ExpectGradients("narrow", "overlapping parts", {x},
                  [](const Tensors& in) { return add(narrow(in[0], 0, 2), narrow(in[0], 1, 2)); });
  ExpectGradients("transpose", "into a product", {random_f64({4, 3}, 2)}, [](const Tensors& in) {
    // An op takes contiguous tensors, so the turned one goes through a view that copies nothing.
    return matmul(in[0], reshape(relu(flatten(in[0])), {3, 4}));
  });
}

TEST(Gradients, Dropout) {
  for (const double probability : {0.0, 0.3, 0.5, 1.0}) {
    ExpectGradients("dropout", "p " + std::to_string(probability), {random_f64({4, 5}, 1)}, [&](const Tensors& in) {
      return dropout(in[0], {.probability = probability, .seed = 7, .offset = 3});
    });
  }
  ExpectGradients("dropout", "of a dropout", {random_f64({4, 5}, 1)},
                  [&](const Tensors& in) { return dropout(dropout(in[0], {.seed = 1}), {.seed = 1, .offset = 1}); });
}

TEST(Gradients, SoftmaxCrossEntropy) {
  const Tensor labels = Tensor::from_vector<int64_t>({4}, {0, 2, 1, 2});
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    for (const double normalizer : {0.0, 16.0}) {
      ExpectGradients("softmax_cross_entropy", "smoothing " + std::to_string(smoothing), {random_f64({4, 3}, 1, -3, 3)},
                      [&](const Tensors& in) {
                        return softmax_cross_entropy(in[0], labels, {smoothing, normalizer});
                      });
    }
  }
  ExpectGradients("softmax_cross_entropy", "of an activation", {random_f64({4, 3}, 1, -3, 3)},
                  [&](const Tensors& in) { return softmax_cross_entropy(add(in[0], in[0]), labels); });
}

TEST(Gradients, Cast) {
  // Values and steps are exact in float, and a cast is linear, so a long step is exact.
  Tensor x = random_f64({3, 4}, 1);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = static_cast<double>(i + 1) / 8;
  ExpectGradients("cast", "to float", {x}, [](const Tensors& in) { return cast(in[0], DType::f32); }, {.step = 0.125});
  ExpectGradients("cast", "to float and back", {x},
                  [](const Tensors& in) { return cast(cast(in[0], DType::f32), DType::f64); }, {.step = 0.125});
  ExpectGradients("cast", "to the same type", {x}, [](const Tensors& in) { return relu(cast(in[0], DType::f64)); },
                  {.step = 0.0625});
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Functions that a header of engine/ops declares and that return a tensor.
std::set<std::string> ops_in(const std::string& header) {
  const std::string start = "\nTensor ";
  std::set<std::string> found;
  for (size_t at = header.find(start); at != std::string::npos; at = header.find(start, at + 1)) {
    const size_t name = at + start.size();
    found.insert(header.substr(name, header.find('(', name) - name));
  }
  return found;
}

TEST(Gradients, EachOpIsChecked) {
  std::string tests;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/ops")))
    tests += text_of(entry.path());
  int64_t ops = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("engine/ops"))) {
    const std::string stem = entry.path().stem().string();
    // What ops call for tensors on an accelerator (device_ops_test.cpp).
    const bool inner = stem == "device_path" || stem.ends_with("_device");
    if (entry.path().extension() != ".h" || inner) continue;
    for (const std::string& op : ops_in(text_of(entry.path()))) {
      ++ops;
      EXPECT_NE(tests.find("ExpectGradients(\"" + op + "\""), std::string::npos) << op << " has no gradient check";
    }
  }
  EXPECT_GE(ops, 16);
}

}  // namespace
}  // namespace engine::testing
