#pragma once
// dropout.h's contract on the device: the same elements survive, by the same numbers. T: float, Half, BFloat16;
// products are taken in float and rounded once. With p = 0 NaN stays NaN, but its payload may change. Any alignment; 16
// bytes at a time where both pointers are aligned to 16 bytes (else four times the random numbers are drawn). Both move
// 2 * count * sizeof(T) bytes and no mask.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/dropout/dropout.h"

namespace engine::kernels {

template <typename T>
struct DropoutCuda {
  Dropout spec;
  const uint64_t* offset =
      nullptr;           // in device memory, added to spec.offset, so that a captured step can count; or null
  const T* x = nullptr;  // backward: grad_y
  T* y = nullptr;        // overwritten; may be x. backward: grad_x
  int64_t count = 0;
};

template <typename T>
void dropout_forward_cuda(const DropoutCuda<T>& args, cudaStream_t stream);

/// grad_x (y) of grad_y (x); spec and *offset as in the forward pass.
template <typename T>
void dropout_backward_cuda(const DropoutCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
