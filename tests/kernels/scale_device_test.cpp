#include "kernels/scale/scale.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class ScaleDevice : public DeviceTest {};
TYPED_TEST_SUITE(ScaleDevice, StorageTypes);

TYPED_TEST(ScaleDevice, MultipliesByTheDevicesNumber) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      for (const float number : {3.0F, 0.0F, 0x1p20F, -0x1p-20F, std::numeric_limits<float>::infinity()}) {
        const std::vector<float> values = awkward<TypeParam>(count, 1);
        const Operand<TypeParam> x(stored<TypeParam>(values), 0), y(count, shift);
        const Operand<float> factor(std::vector<float>{number}, 0);
        std::vector<float> want;
        for (const float value : values) want.push_back(value * number);
        want = rounded<TypeParam>(want);
        kernels::scale_cuda(x.data(), factor.data(), y.data(), count, this->stream());
        ExpectSameValues(y.floats(), want);
        kernels::scale_cuda(x.data(), factor.data(), x.data(), count, this->stream());
        ExpectSameValues(x.floats(), want, "in place");
      }
    }
  }
}

}  // namespace
}  // namespace engine::testing
