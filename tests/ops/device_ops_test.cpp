// Every op on the build's accelerator (emulated without CUDA) against the same op on the CPU: result and gradients.

#include <gtest/gtest.h>

#include <functional>

#include "engine/autograd/backward.h"
#include "engine/core/error.h"
#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/bn_relu_max_pool.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/device_path.h"
#include "engine/ops/dropout.h"
#include "engine/ops/linear.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using Inputs = std::vector<Tensor>;

struct OpCase {
  std::string name;
  std::vector<Shape> shapes;  // of the inputs
  std::function<Tensor(const Inputs&)> op;
  int64_t reduction = 64;
  size_t wide_from = 99;  // inputs from here on stay f32 whatever the type is
};

struct Results {
  std::vector<float> y;
  std::vector<std::vector<float>> gradients;
};

BatchNormState norm_state(const Inputs& in) {
  const auto buffer = [&](double value) {
    const Tensor tensor = in[1].new_empty(in[1].shape(), DType::f32);
    tensor.fill(value);
    return tensor;
  };
  return {in[1], in[2], buffer(0.25), buffer(2)};
}

std::vector<OpCase> op_cases() {
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

/// Runs an op on values that the storage type holds exactly, and back with an upstream gradient like them.
Results run(const OpCase& op, Device device, DType dtype) {
  Inputs inputs;
  for (size_t i = 0; i < op.shapes.size(); ++i) {
    const DType type = i >= op.wide_from ? DType::f32 : dtype;
    const Tensor host = Tensor::from_vector(op.shapes[i], uniform<float>(op.shapes[i].numel(), 10 + i));
    // On the CPU all is f32, of the same numbers.
    const Tensor rounded = cast(cast(host, type), DType::f32);
    inputs.push_back(device.is_cpu() ? rounded : cast(rounded.to(device), type));
    set_requires_grad(inputs.back());
  }
  const Tensor y = op.op(inputs);
  const Tensor upstream = Tensor::from_vector(y.shape(), uniform<float>(y.numel(), 99));
  const Tensor rounded = cast(cast(upstream, dtype), DType::f32);
  backward(y, device.is_cpu() ? rounded : cast(rounded.to(device), dtype));
  const auto values = [](const Tensor& tensor) { return cast(tensor.detach(), DType::f32).to_vector<float>(); };
  Results results{values(y), {}};
  for (const Tensor& input : inputs) results.gradients.push_back(values(grad_of(input)));
  return results;
}

class DeviceOpsTest : public WatchedAcceleratorTest, public ::testing::WithParamInterface<std::tuple<size_t, DType>> {};

TEST_P(DeviceOpsTest, GivesWhatTheCpuGives) {
  const OpCase op = op_cases()[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
  const Results want = run(op, Device::cpu(), dtype), got = run(op, Device::accelerator(), dtype);
  const double roundoff = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16;
  const double tol = tolerance(roundoff, op.reduction, OpClass::transcendental);
  ExpectClose(got.y, want.y, tol, "y");
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    ExpectClose(got.gradients[i], want.gradients[i], tol, "gradient " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, DeviceOpsTest,
                         ::testing::Combine(::testing::Range<size_t>(0, op_cases().size()),
                                            ::testing::Values(DType::f32, DType::f16, DType::bf16)),
                         [](const auto& instance) {
                           return op_cases()[std::get<0>(instance.param)].name + "_" +
                                  name_of(std::get<1>(instance.param));
                         });

class DeviceLossTest : public WatchedAcceleratorTest {};

TEST_F(DeviceLossTest, LossGradientAndHits) {
  const Device device = Device::accelerator();
  const auto values = uniform<float>(5 * 7, 3, -3, 3);
  const Tensor labels = Tensor::from_vector<int64_t>({5}, {0, 6, 3, 2, 2});
  Tensor here = Tensor::from_vector<float>({5, 7}, values), there = here.to(device);
  set_requires_grad(here);
  set_requires_grad(there);
  const CrossEntropyOptions options{.label_smoothing = 0.1, .normalizer = 4};
  const Tensor a = softmax_cross_entropy(here, labels, options);
  const Tensor b = softmax_cross_entropy(there, labels.to(device), options);
  const double tol = tolerance<float>(7, OpClass::transcendental);
  ExpectClose(std::vector<double>{b.item()}, std::vector<double>{a.item()}, tol, "loss");
  backward(a, Tensor::full(Shape{}, 2.5, DType::f64));
  const Tensor seed = Tensor::full(Shape{}, 2.5).to(device);
  backward(b, seed);
  ExpectClose(grad_of(there).to_vector<float>(), grad_of(here).to_vector<float>(), tol, "gradient");
  for (const int64_t k : {1, 3}) {
    EXPECT_EQ(topk_correct(there, labels.to(device), k), topk_correct(here, labels, k)) << k;
  }
}

TEST_F(DeviceLossTest, AScaleIsTakenUpByTheForwardPass) {
  const Device device = Device::accelerator();
  const Tensor labels = Tensor::from_vector<int64_t>({3}, {0, 1, 2}).to(device);
  const Tensor scale = Tensor::full(Shape{}, 1024).to(device);
  const Tensor sum = Tensor::full(Shape{}, 10).to(device);
  Tensor plain = Tensor::from_vector<float>({3, 4}, uniform<float>(12, 1)).to(device), scaled = plain.clone();
  set_requires_grad(plain);
  set_requires_grad(scaled);
  const Tensor a = softmax_cross_entropy(plain, labels);
  backward(a);
  const Tensor b = softmax_cross_entropy(scaled, labels, {.add_to = sum, .grad_scale = scale});
  EXPECT_EQ(b.raw(), sum.raw());
  ExpectClose(std::vector<double>{b.item()}, std::vector<double>{10 + a.item()},
              tolerance<float>(3, OpClass::reduction));
  EXPECT_THROW(backward(b), Error);  // not the tensor that the forward pass was told
  const Tensor c = softmax_cross_entropy(scaled, labels, {.add_to = sum, .grad_scale = scale});
  backward(c, scale);
  std::vector<float> expected = grad_of(plain).to_vector<float>();
  for (float& value : expected) value *= 1024;
  EXPECT_EQ(grad_of(scaled).to_vector<float>(), expected);
}

TEST_F(DeviceLossTest, TensorsOfTwoDevicesAreRefused) {
  const Tensor here = Tensor::zeros({2, 3}), there = here.to(Device::accelerator());
  ExpectError<Error>([&] { add(there, here); }, {"[add] b", "cpu", name_of(Device::accelerator())});
  ExpectError<Error>([&] { softmax_cross_entropy(there, Tensor::zeros({2}, DType::i64)); },
                     {"[softmax_cross_entropy] labels", "cpu"});
  ExpectError<Error>([&] { relu(Tensor::zeros({2}, DType::f64, MemoryCategory::data, Device::accelerator())); },
                     {"[relu] x", "f64", "f32, f16 or bf16"});
}

}  // namespace
}  // namespace engine::testing
