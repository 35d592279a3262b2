#pragma once
// pad_channels.h's contract on the device. T: float, Half, BFloat16; any alignment. Each moves rows * (channels +
// padded) * sizeof(T) bytes at most; it is made for filters, which fit into the caches, and so goes element by element:
// a warp's accesses to the narrow side, and backward its reads of the wide one with gaps, share sectors with their
// neighbours.

#include "kernels/common/device.h"
#include "kernels/pad_channels/pad_channels.h"

namespace engine::kernels {

template <typename T>
void pad_channels_forward_cuda(const PadChannels& spec, const T* x, T* y, cudaStream_t stream);

template <typename T>
void pad_channels_backward_cuda(const PadChannels& spec, const T* grad_y, T* grad_x, cudaStream_t stream);

}  // namespace engine::kernels
