#include "kernels/add/add.h"
#include "kernels/add/add_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class AddDevice : public DeviceTest {};
TYPED_TEST_SUITE(AddDevice, StorageTypes);

TYPED_TEST(AddDevice, EqualsReference) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      const std::vector<float> left = awkward<TypeParam>(count, 1), right = awkward<TypeParam>(count, 5);
      const Operand<TypeParam> a(stored<TypeParam>(left), 0), b(stored<TypeParam>(right), shift), y(count, 0);
      std::vector<float> want(left.size());
      kernels::add_forward_cpu(left.data(), right.data(), want.data(), count);
      kernels::add_forward_cuda(a.data(), b.data(), y.data(), count, this->stream());
      ExpectSameValues(y.floats(), rounded<TypeParam>(want));
      kernels::add_accumulate_cuda(b.data(), a.data(), count, this->stream());
      ExpectSameValues(a.floats(), rounded<TypeParam>(want), "accumulated");
    }
  }
}

TYPED_TEST(AddDevice, AccumulatesOntoItself) {
  const std::vector<float> values = rounded<TypeParam>(uniform<float>(1001, 1));
  const Operand<TypeParam> x(stored<TypeParam>(values), 0);
  kernels::add_accumulate_cuda(x.data(), x.data(), 1001, this->stream());
  std::vector<float> want = values;
  for (float& value : want) value *= 2;
  ExpectSameValues(x.floats(), want);
}

}  // namespace
}  // namespace engine::testing
