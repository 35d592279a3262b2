#include "kernels/common/device_types.h"
#include "kernels/common/launch.h"
#include "kernels/pad_channels/pad_channels_cuda.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) pad_channels_forward_kernel(PadChannels spec, const T* x, T* y) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= spec.rows * spec.padded) return;
  const int64_t row = i / spec.padded, channel = i - row * spec.padded;
  y[i] = channel < spec.channels ? x[row * spec.channels + channel] : from_float<T>(0.0F);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) pad_channels_backward_kernel(PadChannels spec, const T* grad_y, T* grad_x) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= spec.rows * spec.channels) return;
  const int64_t row = i / spec.channels, channel = i - row * spec.channels;
  grad_x[i] = grad_y[row * spec.padded + channel];
}

}  // namespace

template <typename T>
void pad_channels_forward_cuda(const PadChannels& spec, const T* x, T* y, cudaStream_t stream) {
  launch<pad_channels_forward_kernel<T>>({.grid = blocks_for(spec.rows * spec.padded, kThreads),
                                          .block = kThreads,
                                          .bytes = spec.rows * (spec.channels + spec.padded) * int64_t{sizeof(T)}},
                                         stream, spec, x, y);
}

template <typename T>
void pad_channels_backward_cuda(const PadChannels& spec, const T* grad_y, T* grad_x, cudaStream_t stream) {
  launch<pad_channels_backward_kernel<T>>({.grid = blocks_for(spec.rows * spec.channels, kThreads),
                                           .block = kThreads,
                                           .bytes = 2 * spec.rows * spec.channels * int64_t{sizeof(T)}},
                                          stream, spec, grad_y, grad_x);
}

template void pad_channels_forward_cuda(const PadChannels&, const float*, float*, cudaStream_t);
template void pad_channels_forward_cuda(const PadChannels&, const Half*, Half*, cudaStream_t);
template void pad_channels_forward_cuda(const PadChannels&, const BFloat16*, BFloat16*, cudaStream_t);
template void pad_channels_backward_cuda(const PadChannels&, const float*, float*, cudaStream_t);
template void pad_channels_backward_cuda(const PadChannels&, const Half*, Half*, cudaStream_t);
template void pad_channels_backward_cuda(const PadChannels&, const BFloat16*, BFloat16*, cudaStream_t);

}  // namespace engine::kernels
