#pragma once
// Further channels of zeros behind the innermost axis, as tensor cores want them (a stem's filter of 3 channels becomes
// one of 4), and the way back.

#include <cstdint>

namespace engine::kernels {

struct PadChannels {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t padded = 0;  // at least `channels`
};

/// y[r, k] = x[r, k] for k < channels, 0 behind them. x: [rows, channels]; y: [rows, padded], overwritten, not x.
/// float, double, Half, BFloat16.
template <typename T>
void pad_channels_forward_cpu(const PadChannels& spec, const T* x, T* y);

/// grad_x[r, k] = grad_y[r, k]; what is behind `channels` is dropped. grad_x: [rows, channels], overwritten, not
/// grad_y.
template <typename T>
void pad_channels_backward_cpu(const PadChannels& spec, const T* grad_y, T* grad_x);

}  // namespace engine::kernels
