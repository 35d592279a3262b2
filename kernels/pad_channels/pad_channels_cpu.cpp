#include <algorithm>

#include "kernels/common/half.h"
#include "kernels/pad_channels/pad_channels.h"

namespace engine::kernels {

template <typename T>
void pad_channels_forward_cpu(const PadChannels& spec, const T* x, T* y) {
  for (int64_t row = 0; row < spec.rows; ++row, x += spec.channels, y += spec.padded) {
    std::fill(std::copy(x, x + spec.channels, y), y + spec.padded, T{});
  }
}

template <typename T>
void pad_channels_backward_cpu(const PadChannels& spec, const T* grad_y, T* grad_x) {
  for (int64_t row = 0; row < spec.rows; ++row, grad_y += spec.padded, grad_x += spec.channels) {
    std::copy(grad_y, grad_y + spec.channels, grad_x);
  }
}

template void pad_channels_forward_cpu(const PadChannels&, const float*, float*);
template void pad_channels_forward_cpu(const PadChannels&, const double*, double*);
template void pad_channels_forward_cpu(const PadChannels&, const Half*, Half*);
template void pad_channels_forward_cpu(const PadChannels&, const BFloat16*, BFloat16*);
template void pad_channels_backward_cpu(const PadChannels&, const float*, float*);
template void pad_channels_backward_cpu(const PadChannels&, const double*, double*);
template void pad_channels_backward_cpu(const PadChannels&, const Half*, Half*);
template void pad_channels_backward_cpu(const PadChannels&, const BFloat16*, BFloat16*);

}  // namespace engine::kernels
