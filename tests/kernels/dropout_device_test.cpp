#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

using kernels::Dropout;

template <typename T>
class DropoutDevice : public DeviceTest {
 protected:
  static std::vector<float> reference(const Dropout& spec, const std::vector<float>& x) {
    std::vector<float> y(x.size());
    kernels::dropout_forward_cpu(spec, x.data(), y.data(), static_cast<int64_t>(x.size()));
    return rounded<T>(y);
  }
};
TYPED_TEST_SUITE(DropoutDevice, StorageTypes);

TYPED_TEST(DropoutDevice, SameElementsSurvive) {
  for (const int64_t count : kCounts) {
    for (const size_t shift : {0, 1}) {
      for (const double probability : {0.0, 0.1, 0.5, 1.0}) {
        const Dropout spec{.probability = probability, .seed = 0x123456789ABCDEF0, .offset = 0xF0000000F};
        const std::vector<float> values = awkward<TypeParam>(count, 1), want = this->reference(spec, values);
        const Operand<TypeParam> x(stored<TypeParam>(values), shift), y(count, 0);
        kernels::DropoutCuda<TypeParam> args{.spec = spec, .x = x.data(), .y = y.data(), .count = count};
        kernels::dropout_forward_cuda(args, this->stream());
        ExpectSameValues(y.floats(), want);
        args.y = x.data();
        kernels::dropout_backward_cuda(args, this->stream());
        ExpectSameValues(x.floats(), want, "backward, in place");
      }
    }
  }
}

TYPED_TEST(DropoutDevice, TheDevicesOffsetIsAdded) {
  const std::vector<float> ones(1000, 1);
  const Operand<uint64_t> offset(std::vector<uint64_t>{7}, 0);
  const Operand<TypeParam> x(stored<TypeParam>(ones), 0), y(1000, 0);
  const Dropout spec{.probability = 0.5, .seed = 3, .offset = 10};
  kernels::dropout_forward_cuda<TypeParam>(
      {.spec = spec, .offset = offset.data(), .x = x.data(), .y = y.data(), .count = 1000}, this->stream());
  ExpectSameValues(y.floats(), this->reference({.probability = 0.5, .seed = 3, .offset = 17}, ones));
}

}  // namespace
}  // namespace engine::testing
