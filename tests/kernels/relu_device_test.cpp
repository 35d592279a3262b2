#include "kernels/relu/relu.h"
#include "kernels/relu/relu_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class ReluDevice : public DeviceTest {};
TYPED_TEST_SUITE(ReluDevice, StorageTypes);

TYPED_TEST(ReluDevice, ForwardEqualsReference) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      const std::vector<float> values = awkward<TypeParam>(count, 1);
      const Operand<TypeParam> x(stored<TypeParam>(values), 0), y(count, shift);
      std::vector<float> want(values.size());
      kernels::relu_forward_cpu(values.data(), want.data(), count);
      kernels::relu_forward_cuda(x.data(), y.data(), count, this->stream());
      ExpectSameValues(y.floats(), want);
      kernels::relu_forward_cuda(x.data(), x.data(), count, this->stream());
      ExpectSameValues(x.floats(), want, "in place");
    }
  }
}

TYPED_TEST(ReluDevice, BackwardEqualsReference) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      const std::vector<float> result = awkward<TypeParam>(count, 2), grad = awkward<TypeParam>(count, 3);
      const Operand<TypeParam> y(stored<TypeParam>(result), shift), grad_y(stored<TypeParam>(grad), 0);
      const Operand<TypeParam> grad_x(count, 0);
      std::vector<float> want(result.size());
      kernels::relu_backward_cpu(result.data(), grad.data(), want.data(), count);
      kernels::relu_backward_cuda(y.data(), grad_y.data(), grad_x.data(), count, this->stream());
      ExpectSameValues(grad_x.floats(), want);
      kernels::relu_backward_cuda(y.data(), grad_y.data(), y.data(), count, this->stream());
      ExpectSameValues(y.floats(), want, "over y");
    }
  }
}

}  // namespace
}  // namespace engine::testing
