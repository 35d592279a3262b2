#include "kernels/fill/fill.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class FillDevice : public DeviceTest {};
TYPED_TEST_SUITE(FillDevice, StorageTypes);

TYPED_TEST(FillDevice, WritesTheRoundedConstantAndNoMore) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      for (const float value : {0.1F, -0.0F, 1e30F, std::numeric_limits<float>::quiet_NaN()}) {
        const Operand<TypeParam> y(stored<TypeParam>(std::vector<float>(static_cast<size_t>(count) + 3, 5)), shift);
        kernels::fill_cuda(value, y.data(), count, this->stream());
        std::vector<float> want(static_cast<size_t>(count), value);
        want.resize(want.size() + 3, 5);
        ExpectSameValues(y.floats(), rounded<TypeParam>(want));
      }
    }
  }
}

}  // namespace
}  // namespace engine::testing
