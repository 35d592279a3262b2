#include <cmath>

#include "kernels/max_pool2d/max_pool2d.h"
#include "kernels/max_pool2d/max_pool2d_cuda.h"
#include "tests/kernels/device_operand.h"
#include "tests/kernels/pool_shapes.h"

namespace engine::testing {
namespace {

using kernels::Pool2dShape;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// Few distinct values, so that ties are common, zeros of both signs, some NaN and infinities.
std::vector<float> coarse(int64_t count, uint64_t key) {
  std::vector<float> values = uniform<float>(count, key, -4, 4);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 97 == 96 ? kNan : i % 41 == 40 ? kInf : i % 5 == 4 ? -kInf : std::round(values[i]);
  }
  return values;
}

template <typename T>
class MaxPool2dDevice : public DeviceTest {};
TYPED_TEST_SUITE(MaxPool2dDevice, StorageTypes);

TYPED_TEST(MaxPool2dDevice, SameWinnersAndGradientsAsReference) {
  for (const Pool2dShape& shape : pool_shapes()) {
    const std::vector<float> values = coarse(in_size(shape), 1);
    const std::vector<float> grads = rounded<TypeParam>(uniform<float>(out_size(shape), 2));
    std::vector<float> want(grads.size()), want_grad(values.size());
    std::vector<uint8_t> want_index(grads.size());
    kernels::max_pool2d_forward_cpu(shape, values.data(), want.data(), want_index.data());
    kernels::max_pool2d_backward_cpu(shape, grads.data(), want_index.data(), want_grad.data());
    for (const size_t shift : {0, 1}) {
      const Operand<TypeParam> x(stored<TypeParam>(values), shift), y(out_size(shape), 0), eval(out_size(shape), 0);
      const Operand<uint8_t> index(out_size(shape), shift);
      kernels::max_pool2d_forward_cuda(shape, x.data(), y.data(), index.data(), this->stream());
      ExpectSameValues(y.floats(), want);
      EXPECT_EQ(index.read(), want_index);
      kernels::max_pool2d_forward_cuda<TypeParam>(shape, x.data(), eval.data(), nullptr, this->stream());
      ExpectSameValues(eval.floats(), want, "without index");
      const Operand<TypeParam> grad_y(stored<TypeParam>(grads), 0), grad_x(in_size(shape), 0);
      kernels::max_pool2d_backward_cuda(shape, grad_y.data(), index.data(), grad_x.data(), this->stream());
      ExpectSameValues(grad_x.floats(), rounded<TypeParam>(want_grad), "gradient");
    }
  }
}

TYPED_TEST(MaxPool2dDevice, FirstOfEqualsWinsAndNanWinsOverAll) {
  const Pool2dShape shape{.n = 1, .h = 1, .w = 4, .c = 1, .kernel_h = 1, .kernel_w = 4};
  const std::vector<std::pair<std::vector<float>, uint8_t>> cases = {
      {{1, 7, 7, 7}, 1},         {{-kInf, -kInf, -kInf, -kInf}, 0}, {{kNan, kInf, 3, 2}, 0}, {{1, kNan, kInf, kNan}, 3},
      {{0.0F, -0.0F, 0, -1}, 0}, {{-0.0F, 0.0F, 0, -1}, 0},         {{5, 4, 3, kNan}, 3},
  };
  for (const auto& [values, winner] : cases) {
    const Operand<TypeParam> x(stored<TypeParam>(values), 0), y(1, 0);
    const Operand<uint8_t> index(1, 0);
    kernels::max_pool2d_forward_cuda(shape, x.data(), y.data(), index.data(), this->stream());
    EXPECT_EQ(index.read()[0], winner);
    ExpectSameValues(y.floats(), {values[winner]});
  }
}

}  // namespace
}  // namespace engine::testing
