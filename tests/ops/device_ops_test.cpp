// Every op on the build's accelerator (emulated without CUDA) against the same op on the CPU: result and gradients.

#include <gtest/gtest.h>

#include "engine/autograd/backward.h"
#include "engine/core/error.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "tests/ops/op_cases.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

class DeviceOpsTest : public WatchedAcceleratorTest, public ::testing::WithParamInterface<std::tuple<size_t, DType>> {};

TEST_P(DeviceOpsTest, GivesWhatTheCpuGives) {
  const OpCase op = op_cases()[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
  const OpResults want = run_op(op, Device::cpu(), dtype, true);
  const OpResults got = run_op(op, Device::accelerator(), dtype, false);
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
