#pragma once
// Ops with inputs for them, to be run on one device or in one type and compared with another.

#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/backward.h"
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
#include "engine/ops/view.h"
#include "tests/support/numeric.h"

namespace engine::testing {

using Inputs = std::vector<Tensor>;

struct OpCase {
  std::string name;
  std::vector<Shape> shapes;  // of the inputs
  std::function<Tensor(const Inputs&)> op;
  int64_t reduction = 64;
  size_t wide_from = 99;  // inputs from here on stay f32 whatever the type is
};

struct OpResults {
  std::vector<float> y;
  std::vector<std::vector<float>> gradients;
};

inline BatchNormState norm_state(const Inputs& in) {
  const auto buffer = [&](double value) {
    const Tensor tensor = in[1].new_empty(in[1].shape(), DType::f32);
    tensor.fill(value);
    return tensor;
  };
  return {in[1], in[2], buffer(0.25), buffer(2)};
}

inline std::vector<OpCase> op_cases() {
  const Pool2dOptions pool{.kernel = 3, .stride = 2, .padding = 1};
  const Conv2dOptions conv{.stride = 2, .padding = 1};
  const Shape picture{2, 9, 7, 16}, channels{16};
  return {
      {"add", {picture, picture}, [](const Inputs& in) { return add(in[0], in[1]); }},
      {"add_itself", {picture}, [](const Inputs& in) { return add(add(in[0], in[0]), in[0]); }},
      {"relu", {picture}, [](const Inputs& in) { return relu(in[0]); }},
      {"dropout",
       {picture},
       [](const Inputs& in) { return dropout(in[0], {.probability = 0.4, .training = true, .seed = 5}); }},
      {"reshape", {picture}, [](const Inputs& in) { return flatten(in[0]); }},
      {"narrow", {picture}, [](const Inputs& in) { return narrow(in[0], 1, 1); }},
      {"pad_channels", {Shape{8, 3, 3, 3}}, [](const Inputs& in) { return pad_channels(in[0], 4); }},
      {"max_pool2d", {picture}, [=](const Inputs& in) { return max_pool2d(in[0], pool); }},
      {"avg_pool2d", {picture}, [=](const Inputs& in) { return avg_pool2d(in[0], pool); }},
      {"global_avg_pool", {picture}, [](const Inputs& in) { return global_avg_pool(in[0]); }},
      {"conv2d", {picture, {8, 3, 3, 16}}, [=](const Inputs& in) { return conv2d(in[0], in[1], Tensor(), conv); }, 144},
      {"conv2d_bias",
       {picture, {8, 3, 3, 16}, Shape{8}},
       [=](const Inputs& in) { return conv2d(in[0], in[1], in[2], conv); },
       144},
      {"linear", {{6, 20}, {12, 20}, Shape{12}}, [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, 20},
      {"linear_plain", {{6, 20}, {12, 20}}, [](const Inputs& in) { return linear(in[0], in[1]); }, 20},
      {"batch_norm",
       {picture, channels, channels},
       [](const Inputs& in) { return batch_norm(in[0], norm_state(in)); },
       126,
       1},
      {"batch_norm_relu",
       {picture, channels, channels},
       [](const Inputs& in) { return batch_norm(in[0], norm_state(in), {.relu = true}); },
       126,
       1},
      {"batch_norm_evaluation",
       {picture, channels, channels},
       [](const Inputs& in) { return batch_norm(in[0], norm_state(in), {.training = false, .relu = true}); },
       126,
       1},
      {"bn_relu_max_pool",
       {picture, channels, channels},
       [=](const Inputs& in) { return bn_relu_max_pool(in[0], norm_state(in), {}, pool); },
       126,
       1},
  };
}

/// Runs an op on values that `dtype` holds exactly, and back with an upstream gradient like them. The tensors are of
/// that type, or, `widened`, f32 of the same numbers.
inline OpResults run_op(const OpCase& op, Device device, DType dtype, bool widened) {
  const auto stored = [&](const Tensor& host, DType type) {
    const Tensor rounded = cast(host, type);
    return widened ? cast(rounded, DType::f32).to(device) : rounded.to(device);
  };
  Inputs inputs;
  for (size_t i = 0; i < op.shapes.size(); ++i) {
    const Tensor host = Tensor::from_vector(op.shapes[i], uniform<float>(op.shapes[i].numel(), 10 + i));
    inputs.push_back(stored(host, i >= op.wide_from ? DType::f32 : dtype));
    set_requires_grad(inputs.back());
  }
  const Tensor y = op.op(inputs);
  backward(y, stored(Tensor::from_vector(y.shape(), uniform<float>(y.numel(), 99)), dtype));
  const auto values = [](const Tensor& tensor) { return cast(tensor.detach(), DType::f32).to_vector<float>(); };
  OpResults results{values(y), {}};
  for (const Tensor& input : inputs) results.gradients.push_back(values(grad_of(input)));
  return results;
}

}  // namespace engine::testing
