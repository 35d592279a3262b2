#include "kernels/matmul/matmul_device.h"

#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

using kernels::ElementType;
using kernels::LinearShape;

constexpr ElementType type_of(float) { return ElementType::f32; }
constexpr ElementType type_of(kernels::Half) { return ElementType::f16; }
constexpr ElementType type_of(kernels::BFloat16) { return ElementType::bf16; }

// ResNet's and SimpleCNN's last layers, one row, odd extents, a long sum.
const std::vector<LinearShape> kShapes = {{.batch = 4, .in = 512, .out = 1000},
                                          {.batch = 64, .in = 676, .out = 10},
                                          {.batch = 1, .in = 24, .out = 16},
                                          {.batch = 3, .in = 5, .out = 7},
                                          {.batch = 500, .in = 8, .out = 8}};

template <typename T>
class LinearDeviceTest : public DeviceTest {
 protected:
  LinearDeviceTest() : workspace_(static_cast<size_t>(kernels::linear_device_workspace_bytes())) {}
  kernels::LinearDevice layer(const LinearShape& shape) const {
    return {.shape = shape, .type = type_of(T{}), .device = 0, .workspace = workspace_.data()};
  }
  static std::vector<float> random(int64_t count, uint64_t key) { return rounded<T>(uniform<float>(count, key)); }
  static double tolerance_of(int64_t length) { return tolerance(kUnitRoundoff<T>, length, OpClass::matmul); }

 private:
  DeviceArray<char> workspace_;
};
TYPED_TEST_SUITE(LinearDeviceTest, StorageTypes);

TYPED_TEST(LinearDeviceTest, ForwardEqualsReference) {
  for (const LinearShape& shape : kShapes) {
    for (const bool with_bias : {false, true}) {
      const std::vector<float> x = this->random(shape.batch * shape.in, 1), w = this->random(shape.out * shape.in, 2);
      const std::vector<float> bias = this->random(shape.out, 3);
      std::vector<double> want(static_cast<size_t>(shape.batch * shape.out));
      const std::vector<double> wide_bias = converted<double>(bias);
      kernels::linear_forward_cpu<double>(converted<double>(x).data(), converted<double>(w).data(),
                                          with_bias ? wide_bias.data() : nullptr, want.data(), shape);
      const Operand<TypeParam> x_device(stored<TypeParam>(x), 0), w_device(stored<TypeParam>(w), 0);
      const Operand<TypeParam> bias_device(stored<TypeParam>(bias), 0), y(shape.batch * shape.out, 0);
      kernels::linear_forward_device(this->layer(shape), x_device.data(), w_device.data(),
                                     with_bias ? bias_device.data() : nullptr, y.data(), this->stream());
      ExpectClose(y.floats(), want, this->tolerance_of(shape.in), with_bias ? "with bias" : "without");
    }
  }
}

TYPED_TEST(LinearDeviceTest, BackwardDataEqualsReference) {
  for (const LinearShape& shape : kShapes) {
    const std::vector<float> grad = this->random(shape.batch * shape.out, 4), w = this->random(shape.out * shape.in, 2);
    std::vector<double> want(static_cast<size_t>(shape.batch * shape.in));
    kernels::linear_backward_data_cpu<double>(converted<double>(grad).data(), converted<double>(w).data(), want.data(),
                                              shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad), 0), w_device(stored<TypeParam>(w), 0);
    const Operand<TypeParam> grad_x(shape.batch * shape.in, 0);
    kernels::linear_backward_data_device(this->layer(shape), grad_device.data(), w_device.data(), grad_x.data(),
                                         this->stream());
    ExpectClose(grad_x.floats(), want, this->tolerance_of(shape.out), "grad_x");
  }
}

TYPED_TEST(LinearDeviceTest, BackwardWeightsEqualsReference) {
  for (const LinearShape& shape : kShapes) {
    const std::vector<float> grad = this->random(shape.batch * shape.out, 4),
                             x = this->random(shape.batch * shape.in, 1);
    std::vector<double> want(static_cast<size_t>(shape.out * shape.in));
    kernels::linear_backward_weights_cpu<double>(converted<double>(x).data(), converted<double>(grad).data(),
                                                 want.data(), nullptr, shape);
    const Operand<TypeParam> grad_device(stored<TypeParam>(grad), 0), x_device(stored<TypeParam>(x), 0);
    const Operand<TypeParam> grad_weight(shape.out * shape.in, 0);
    kernels::linear_backward_weights_device(this->layer(shape), x_device.data(), grad_device.data(), grad_weight.data(),
                                            this->stream());
    ExpectClose(grad_weight.floats(), want, this->tolerance_of(shape.batch), "grad_weight");
  }
}

TYPED_TEST(LinearDeviceTest, AnEmptyBatchGivesNothingAndZeroWeightGradients) {
  const LinearShape shape{.batch = 0, .in = 8, .out = 16};
  const Operand<TypeParam> rows(8, 0), weight(std::vector<TypeParam>(128, TypeParam(1.0F)), 0), grad_weight(128, 0);
  kernels::linear_forward_device(this->layer(shape), rows.data(), weight.data(), nullptr, rows.data(), this->stream());
  kernels::linear_backward_data_device(this->layer(shape), rows.data(), weight.data(), rows.data(), this->stream());
  kernels::linear_backward_weights_device(this->layer(shape), rows.data(), rows.data(), grad_weight.data(),
                                          this->stream());
  ExpectSameValues(grad_weight.floats(), std::vector<float>(128, 0));
  ExpectSameValues(rows.floats(), std::vector<float>(8, std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace
}  // namespace engine::testing
