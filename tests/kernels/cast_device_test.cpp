#include "kernels/cast/cast.h"
#include "kernels/cast/cast_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class CastDevice : public DeviceTest {
 protected:
  template <typename To>
  void expect_reference(int64_t count, size_t shift) {
    std::vector<float> values = awkward<T>(count, 1);
    // Halfway between neighbours of the 16-bit types, where the even one is right.
    for (size_t i = 3; i < values.size(); i += 11) values[i] = 1 + static_cast<float>(i % 8) * 0x1p-11F;
    const std::vector<T> from = stored<T>(values);
    std::vector<To> want(from.size());
    kernels::cast_cpu(from.data(), want.data(), count);
    const Operand<T> x(from, shift);
    const Operand<To> y(count, 0);
    kernels::cast_cuda(x.data(), y.data(), count, stream());
    ExpectSameValues(y.floats(), as_floats(want));
  }
};
TYPED_TEST_SUITE(CastDevice, StorageTypes);

TYPED_TEST(CastDevice, AllPairsEqualReference) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      this->template expect_reference<float>(count, shift);
      this->template expect_reference<kernels::Half>(count, shift);
      this->template expect_reference<kernels::BFloat16>(count, shift);
    }
  }
}

TYPED_TEST(CastDevice, InPlaceBetweenTypesOfOneSize) {
  const std::vector<TypeParam> values = stored<TypeParam>(awkward<TypeParam>(5000, 2));
  const Operand<TypeParam> x(values, 0);
  kernels::cast_cuda(x.data(), x.data(), 5000, this->stream());
  ExpectSameValues(x.floats(), as_floats(values));
}

}  // namespace
}  // namespace engine::testing
