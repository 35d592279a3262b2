#include "kernels/conv2d/conv2d_device.h"

#include <stdexcept>

#include "kernels/conv2d/conv2d_fusion.h"
#include "tests/kernels/device_operand.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

using kernels::Conv2dShape;
using kernels::ConvBuffers;
using kernels::ConvDirection;
using kernels::ConvPlan;
using kernels::ConvPlanKey;
using kernels::ElementType;

constexpr ElementType type_of(float) { return ElementType::f32; }
constexpr ElementType type_of(kernels::Half) { return ElementType::f16; }
constexpr ElementType type_of(kernels::BFloat16) { return ElementType::bf16; }

// A digit, a stem without padded channels, a strided 3x3, a 1x1, groups, dilation, unequal sides.
const std::vector<Conv2dShape> kShapes = {
    {.n = 3, .h = 28, .w = 28, .c = 1, .k = 32, .r = 3, .s = 3},
    {.n = 2, .h = 33, .w = 33, .c = 3, .k = 8, .r = 7, .s = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3},
    {.n = 2, .h = 14, .w = 14, .c = 16, .k = 24, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
    {.n = 1, .h = 9, .w = 5, .c = 64, .k = 16},
    {.n = 2, .h = 8, .w = 8, .c = 16, .k = 16, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 2},
    {.n = 1, .h = 12, .w = 7, .c = 8, .k = 8, .r = 3, .s = 1, .pad_h = 2, .dilation_h = 2},
};

template <typename T>
class Conv2dDevice : public DeviceTest {
 protected:
  static constexpr ElementType kType = type_of(T{});

  void run(const ConvPlanKey& key, const ConvBuffers& buffers) {
    const ConvPlan& plan = kernels::conv2d_plan(0, key);
    const DeviceArray<char> workspace(static_cast<size_t>(plan.workspace_bytes()));
    plan.run(buffers, workspace.data(), stream());
    synchronize();
  }

  static std::vector<float> random(int64_t count, uint64_t key) { return rounded<T>(uniform<float>(count, key)); }
  static double matmul_tolerance(int64_t length) { return tolerance(kUnitRoundoff<T>, length, OpClass::winograd); }
};
TYPED_TEST_SUITE(Conv2dDevice, StorageTypes);

TYPED_TEST(Conv2dDevice, ForwardEqualsReference) {
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> x = this->random(shape.x_numel(), 1), weight = this->random(shape.weight_numel(), 2);
    std::vector<double> want(static_cast<size_t>(shape.y_numel()));
    kernels::conv2d_forward_cpu<double>(converted<double>(x).data(), converted<double>(weight).data(), nullptr,
                                        want.data(), shape);
    const Operand<TypeParam> x_device(stored<TypeParam>(x), 0), weight_device(stored<TypeParam>(weight), 0);
    const Operand<TypeParam> y(shape.y_numel(), 0);
    this->run({.shape = shape, .direction = ConvDirection::forward, .type = this->kType},
              {.x = x_device.data(), .weight = weight_device.data(), .y = y.data()});
    const int64_t length = shape.r * shape.s * shape.c / shape.groups;
    ExpectClose(y.floats(), want, this->matmul_tolerance(length), shape.str());
  }
}

TYPED_TEST(Conv2dDevice, BackwardDataEqualsReference) {
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> grad_y = this->random(shape.y_numel(), 3), weight = this->random(shape.weight_numel(), 2);
    std::vector<double> want(static_cast<size_t>(shape.x_numel()));
    kernels::conv2d_backward_data_cpu<double>(converted<double>(grad_y).data(), converted<double>(weight).data(),
                                              want.data(), shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad_y), 0), weight_device(stored<TypeParam>(weight), 0);
    const Operand<TypeParam> grad_x(shape.x_numel(), 0);
    this->run({.shape = shape, .direction = ConvDirection::backward_data, .type = this->kType},
              {.weight = weight_device.data(), .grad_y = grad_device.data(), .grad_x = grad_x.data()});
    const int64_t length = shape.r * shape.s * shape.k / shape.groups;
    ExpectClose(grad_x.floats(), want, this->matmul_tolerance(length), shape.str());
  }
}

TYPED_TEST(Conv2dDevice, BackwardWeightsEqualsReference) {
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> grad_y = this->random(shape.y_numel(), 3), x = this->random(shape.x_numel(), 1);
    std::vector<double> want(static_cast<size_t>(shape.weight_numel()));
    kernels::conv2d_backward_weights_cpu<double>(converted<double>(x).data(), converted<double>(grad_y).data(),
                                                 want.data(), nullptr, shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad_y), 0), x_device(stored<TypeParam>(x), 0);
    const Operand<TypeParam> grad_weight(shape.weight_numel(), 0);
    this->run({.shape = shape, .direction = ConvDirection::backward_weights, .type = this->kType},
              {.x = x_device.data(), .grad_y = grad_device.data(), .grad_weight = grad_weight.data()});
    ExpectClose(grad_weight.floats(), want, this->matmul_tolerance(shape.y_numel() / shape.k), shape.str());
  }
}

class ConvPlans : public DeviceTest {};

TEST_F(ConvPlans, AreMadeOnce) {
  const ConvPlanKey key{.shape = kShapes[2], .type = ElementType::f16};
  const ConvPlan& plan = kernels::conv2d_plan(0, key);
  EXPECT_EQ(&plan, &kernels::conv2d_plan(0, key, {.deterministic = true, .cache_folder = {}}));
  ConvPlanKey other = key;
  other.type = ElementType::bf16;
  EXPECT_NE(&plan, &kernels::conv2d_plan(0, other));
  EXPECT_FALSE(plan.engine().empty());
  EXPECT_GE(plan.workspace_bytes(), 0);
}

TEST_F(ConvPlans, RefuseWhatMakesNoSense) {
  ConvPlanKey key{.shape = kShapes[2], .type = ElementType::f16};
  key.shape.groups = 3;
  EXPECT_THROW(kernels::conv2d_plan(0, key), std::invalid_argument);
  key.shape.groups = 1;
  key.direction = ConvDirection::backward_data;
  key.fusion.epilogue = kernels::ConvEpilogue::statistics;
  EXPECT_THROW(kernels::conv2d_plan(0, key), std::invalid_argument);
}

TEST_F(ConvPlans, NameAMissingBuffer) {
  const ConvPlan& plan = kernels::conv2d_plan(0, {.shape = kShapes[2], .type = ElementType::f16});
  const std::string message = message_of<std::invalid_argument>([&] { plan.run({}, nullptr, stream()); });
  EXPECT_NE(message.find("[conv2d] x: got null"), std::string::npos) << message;
}

TEST_F(ConvPlans, RunInsideAGraph) {
  const Conv2dShape shape = kShapes[3];
  const ConvPlan& plan = kernels::conv2d_plan(0, {.shape = shape, .type = ElementType::f32});
  const std::vector<float> x = uniform<float>(shape.x_numel(), 1), weight = uniform<float>(shape.weight_numel(), 2);
  const Operand<float> x_device(x, 0), weight_device(weight, 0), plain(shape.y_numel(), 0),
      replayed(shape.y_numel(), 0);
  const DeviceArray<char> workspace(static_cast<size_t>(plan.workspace_bytes()));
  plan.run({.x = x_device.data(), .weight = weight_device.data(), .y = plain.data()}, workspace.data(), stream());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  kernels::check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "begin");
  plan.run({.x = x_device.data(), .weight = weight_device.data(), .y = replayed.data()}, workspace.data(), stream());
  kernels::check_cuda(cudaStreamEndCapture(stream(), &graph), "end");
  kernels::check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  kernels::check_cuda(cudaGraphLaunch(executable, stream()), "launch");
  synchronize();
  ExpectSameBits(replayed.read(), plain.read());
  kernels::check_cuda(cudaGraphExecDestroy(executable), "destroy");
  kernels::check_cuda(cudaGraphDestroy(graph), "destroy");
}

}  // namespace
}  // namespace engine::testing
