#include "kernels/pad_channels/pad_channels.h"
#include "kernels/pad_channels/pad_channels_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

using kernels::PadChannels;

TEST(PadChannels, PutsZerosBehindAndCutsThemOff) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(8, 9), back(6, 9);
  kernels::pad_channels_forward_cpu({.rows = 2, .channels = 3, .padded = 4}, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 0, 4, 5, 6, 0}));
  const std::vector<float> grad_y = {1, 2, 3, 100, 4, 5, 6, 100};
  kernels::pad_channels_backward_cpu({.rows = 2, .channels = 3, .padded = 4}, grad_y.data(), back.data());
  EXPECT_EQ(back, x);
}

template <typename T>
class PadChannelsDevice : public DeviceTest {};
TYPED_TEST_SUITE(PadChannelsDevice, StorageTypes);

TYPED_TEST(PadChannelsDevice, EqualsReference) {
  for (const PadChannels& spec : {PadChannels{3136, 3, 4}, PadChannels{1, 1, 8}, PadChannels{257, 3, 8},
                                  PadChannels{5, 4, 4}, PadChannels{0, 3, 4}}) {
    const int64_t narrow = spec.rows * spec.channels, wide = spec.rows * spec.padded;
    const std::vector<float> values = awkward<TypeParam>(narrow, 1), grad = awkward<TypeParam>(wide, 2);
    const Operand<TypeParam> x(stored<TypeParam>(values), 0), y(wide, 0);
    const Operand<TypeParam> grad_y(stored<TypeParam>(grad), 0), grad_x(narrow, 0);
    std::vector<float> want(static_cast<size_t>(wide)), want_grad(static_cast<size_t>(narrow));
    kernels::pad_channels_forward_cpu(spec, values.data(), want.data());
    kernels::pad_channels_backward_cpu(spec, grad.data(), want_grad.data());
    kernels::pad_channels_forward_cuda(spec, x.data(), y.data(), this->stream());
    kernels::pad_channels_backward_cuda(spec, grad_y.data(), grad_x.data(), this->stream());
    ExpectSameValues(y.floats(), want);
    ExpectSameValues(grad_x.floats(), want_grad, "backward");
  }
}

}  // namespace
}  // namespace engine::testing
