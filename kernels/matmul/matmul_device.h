#pragma once
// Fully connected layers on the device: cuBLASLt on a GPU, the CPU path on the emulated device. Row-major: x[batch,
// in], weight[out, in], bias[out], y[batch, out], all of one element type, with FP32 accumulation. Results are
// overwritten and overlap no input.

#include <cstdint>
#include <string>

#include "kernels/common/device.h"
#include "kernels/common/element_type.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {

/// Device memory that each call below may use, for any shape; 256-byte aligned.
int64_t linear_device_workspace_bytes();

struct LinearDevice {
  LinearShape shape;
  ElementType type = ElementType::f32;
  int device = 0;             // current, and home of all memory
  void* workspace = nullptr;  // linear_device_workspace_bytes()
};

/// y = x * weight^T + bias; bias may be null.
void linear_forward_device(const LinearDevice& layer, const void* x, const void* weight, const void* bias, void* y,
                           cudaStream_t stream);
/// grad_x = grad_y * weight.
void linear_backward_data_device(const LinearDevice& layer, const void* grad_y, const void* weight, void* grad_x,
                                 cudaStream_t stream);
/// grad_weight = grad_y^T * x. (The bias's gradient is kernels/bias's work.)
void linear_backward_weights_device(const LinearDevice& layer, const void* x, const void* grad_y, void* grad_weight,
                                    cudaStream_t stream);
// All three put their work on the stream, can be captured, are repeatable bit for bit, and throw LibraryError where
// the library is missing or refuses. The algorithm is chosen by the library's heuristics at the first call for a shape
// and kept. Extents of zero: an empty result is no work; batch 0 gives zero weight gradients.

}  // namespace engine::kernels
