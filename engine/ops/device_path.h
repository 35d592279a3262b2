#pragma once
// Calling the kernels of an accelerator.

#include "engine/core/dispatch.h"
#include "engine/core/stream.h"
#include "engine/core/tensor.h"
#include "kernels/common/element_type.h"
#include "kernels/conv2d/conv2d_device.h"

namespace engine {

inline bool on_accelerator(const Tensor& tensor) { return !tensor.device().is_cpu(); }

/// The stream that a tensor's device computes on.
inline cudaStream_t stream_of(const Tensor& tensor) { return compute_stream(tensor.device()).handle(); }

/// How libraries compute with tensors of a type; f32 is tf32 where allow_tf32() is on.
kernels::ElementType element_type_of(DType dtype, const char* op);

/// For the whole process, off at first: FP32 convolutions and products may round their operands to TF32.
void set_allow_tf32(bool allow);

/// How convolutions choose their plans, for the whole process; set before the first one runs.
void set_conv_plan_options(const kernels::ConvPlanOptions& options);
const kernels::ConvPlanOptions& conv_plan_options();

/// Scratch for the work of one launch, on the tensor's device; null where bytes is 0.
Tensor device_workspace(const Tensor& like, int64_t bytes);

/// grad_bias [channels] (of grad_y's type) = the sum of grad_y [rows, channels] over its rows.
void bias_backward_on_device(const Tensor& grad_y, const Tensor& grad_bias, int64_t rows, int64_t channels);

template <typename T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace engine
