#include <stdexcept>

#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_direct.h"
#include "kernels/conv2d/conv2d_direct_cuda.h"
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

// One pixel, a digit, a stem, a strided 3x3, more than a tile of each extent, groups, one channel a group, dilation
// with unequal sides, a stride beyond the filter, so that some inputs have no gradient.
const std::vector<Conv2dShape> kShapes = {
    {},
    {.n = 1, .h = 20, .w = 20, .c = 1, .k = 18, .r = 3, .s = 3},
    {.n = 2, .h = 17, .w = 17, .c = 3, .k = 8, .r = 7, .s = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3},
    {.n = 2, .h = 14, .w = 14, .c = 16, .k = 24, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
    {.n = 1, .h = 9, .w = 8, .c = 70, .k = 66},
    {.n = 2, .h = 8, .w = 8, .c = 12, .k = 20, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 2},
    {.n = 1, .h = 6, .w = 5, .c = 6, .k = 6, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 6},
    {.n = 1, .h = 12, .w = 7, .c = 8, .k = 8, .r = 3, .s = 2, .pad_h = 2, .dilation_h = 2, .dilation_w = 3},
    {.n = 2, .h = 9, .w = 10, .c = 5, .k = 7, .r = 2, .s = 1, .stride_h = 3, .stride_w = 4, .pad_w = 1},
};

template <typename T>
class Conv2dDirectDevice : public DeviceTest {
 protected:
  void run(const Conv2dShape& shape, ConvDirection direction, const ConvBuffers& buffers) {
    const auto plan = kernels::make_direct_plan({.shape = shape, .direction = direction, .type = type_of(T{})});
    EXPECT_EQ(plan->engine(), "direct");
    const DeviceArray<char> workspace(static_cast<size_t>(plan->workspace_bytes()));
    plan->run(buffers, workspace.data(), stream());
    synchronize();
  }
  static std::vector<float> random(int64_t count, uint64_t key) { return rounded<T>(uniform<float>(count, key)); }
  static double matmul_tolerance(int64_t length) { return tolerance(kUnitRoundoff<T>, length, OpClass::matmul); }
};
TYPED_TEST_SUITE(Conv2dDirectDevice, StorageTypes);

TYPED_TEST(Conv2dDirectDevice, H_CUDA_02_ForwardEqualsReference) {
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> x = this->random(shape.x_numel(), 1), weight = this->random(shape.weight_numel(), 2);
    std::vector<double> want(static_cast<size_t>(shape.y_numel()));
    kernels::conv2d_forward_cpu<double>(converted<double>(x).data(), converted<double>(weight).data(), nullptr,
                                        want.data(), shape);
    // Elements need no more alignment than their own.
    const Operand<TypeParam> x_device(stored<TypeParam>(x), 1), weight_device(stored<TypeParam>(weight), 1);
    const Operand<TypeParam> y(shape.y_numel(), 1);
    this->run(shape, ConvDirection::forward, {.x = x_device.data(), .weight = weight_device.data(), .y = y.data()});
    ExpectClose(y.floats(), want, this->matmul_tolerance(shape.r * shape.s * shape.c / shape.groups), shape.str());
  }
}

TYPED_TEST(Conv2dDirectDevice, H_CUDA_02_BackwardDataEqualsReference) {
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> grad_y = this->random(shape.y_numel(), 3), weight = this->random(shape.weight_numel(), 2);
    std::vector<double> want(static_cast<size_t>(shape.x_numel()));
    kernels::conv2d_backward_data_cpu<double>(converted<double>(grad_y).data(), converted<double>(weight).data(),
                                              want.data(), shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad_y), 1), weight_device(stored<TypeParam>(weight), 1);
    const Operand<TypeParam> grad_x(shape.x_numel(), 1);
    this->run(shape, ConvDirection::backward_data,
              {.weight = weight_device.data(), .grad_y = grad_device.data(), .grad_x = grad_x.data()});
    ExpectClose(grad_x.floats(), want, this->matmul_tolerance(shape.r * shape.s * shape.k / shape.groups), shape.str());
  }
}

TYPED_TEST(Conv2dDirectDevice, H_CUDA_02_BackwardWeightsEqualsReference) {
  int64_t split = 0, whole = 0;
  for (const Conv2dShape& shape : kShapes) {
    const std::vector<float> grad_y = this->random(shape.y_numel(), 3), x = this->random(shape.x_numel(), 1);
    std::vector<double> want(static_cast<size_t>(shape.weight_numel()));
    kernels::conv2d_backward_weights_cpu<double>(converted<double>(x).data(), converted<double>(grad_y).data(),
                                                 want.data(), nullptr, shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad_y), 1), x_device(stored<TypeParam>(x), 1);
    const Operand<TypeParam> grad_weight(shape.weight_numel(), 1);
    this->run(shape, ConvDirection::backward_weights,
              {.x = x_device.data(), .grad_y = grad_device.data(), .grad_weight = grad_weight.data()});
    ExpectClose(grad_weight.floats(), want, this->matmul_tolerance(shape.y_numel() / shape.k), shape.str());
    ++(kernels::conv2d_backward_weights_direct_workspace_bytes(shape) > 0 ? split : whole);
  }
  EXPECT_GT(split, 0) << "no shape whose pixels are summed in parts";
  EXPECT_GT(whole, 0) << "no shape whose pixels are summed at once";
}

TYPED_TEST(Conv2dDirectDevice, GivesTheSameBitsInAnyOrderOfBlocks) {
  const Conv2dShape shape = kShapes[1];
  const std::vector<float> grad_y = this->random(shape.y_numel(), 3), x = this->random(shape.x_numel(), 1);
  const Operand<TypeParam> grad_device(stored<TypeParam>(grad_y), 0), x_device(stored<TypeParam>(x), 0);
  std::vector<std::vector<float>> results;
  for (const uint64_t seed : {0, 1, 2, 3, 4}) {
    const ScheduleScope order(seed);
    const Operand<TypeParam> grad_weight(shape.weight_numel(), 0);
    this->run(shape, ConvDirection::backward_weights,
              {.x = x_device.data(), .grad_y = grad_device.data(), .grad_weight = grad_weight.data()});
    results.push_back(grad_weight.floats());
  }
  for (const auto& result : results) ExpectSameValues(result, results.front());
}

class Conv2dDirectPlan : public DeviceTest {};

TEST_F(Conv2dDirectPlan, RefusesWhatItCannotDo) {
  ConvPlanKey key{.shape = kShapes[3], .type = ElementType::f16};
  key.fusion.epilogue = kernels::ConvEpilogue::statistics;
  ExpectError<kernels::LibraryError>([&] { kernels::make_direct_plan(key); }, {"cuDNN", "fused", "statistics"});
  key.fusion = {};
  key.shape.groups = 7;
  EXPECT_THROW(kernels::make_direct_plan(key), std::invalid_argument);
  key.shape = {.n = int64_t{1} << 20, .h = 64, .w = 64, .c = 1, .k = 1};
  ExpectError<std::invalid_argument>([&] { kernels::make_direct_plan(key); }, {"[conv2d] shape: got", "2^31"});
}

TEST_F(Conv2dDirectPlan, NamesAMissingBuffer) {
  const auto plan = kernels::make_direct_plan({.shape = kShapes[3], .type = ElementType::bf16});
  ExpectError<std::invalid_argument>([&] { plan->run({}, nullptr, stream()); }, {"[conv2d] x: got null"});
}

}  // namespace
}  // namespace engine::testing
