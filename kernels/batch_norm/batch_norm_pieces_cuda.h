#pragma once
// Batch norm in pieces, for a data flow in which convolutions do the rest: they sum up their own results in the
// epilogue, apply scale, bias and ReLU in the next prologue, and reduce the gradient of the normalisation behind their
// backward pass (the operations that cuDNN's graph API names genstats, batch-norm finalize and dbn-weight). Types and
// conventions as in batch_norm_cuda.h; no workspace; nothing may alias unless it says so.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/half.h"

namespace engine::kernels {

/// scale = gamma * invstd and bias = beta - mean * scale from the sums of a batch. The variance is the difference of
/// two means, taken in double and never below 0: sums in float lose it where the mean is far larger than the deviation,
/// which is why batch_norm_forward_cuda does without them. Moves per-channel arrays only.
template <typename T>
struct BatchNormFinalizeCuda {
  int64_t count = 0;  // values summed up per channel, at least 2
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;
  const float* sum = nullptr;          // [channels]
  const float* sum_squares = nullptr;  // [channels]
  const float* gamma = nullptr;        // [channels]
  const float* beta = nullptr;         // [channels]
  float* running_mean = nullptr;       // [channels], updated unless null
  float* running_var = nullptr;        // [channels], updated unless null
  float* saved_mean = nullptr;         // [channels], overwritten unless null
  float* saved_invstd = nullptr;       // [channels], overwritten unless null
  float* scale = nullptr;              // [channels], overwritten unless null
  float* bias = nullptr;               // [channels], overwritten unless null
  T* stored_scale = nullptr;           // [channels], the same rounded to T; overwritten unless null
  T* stored_bias = nullptr;            // [channels], likewise
};

template <typename T>
void batch_norm_finalize_cuda(const BatchNormFinalizeCuda<T>& args, cudaStream_t stream);

/// The same vectors for evaluation, from the running statistics, which are read and stay as they are; count, momentum,
/// sum and sum_squares are not used.
template <typename T>
void batch_norm_inference_finalize_cuda(const BatchNormFinalizeCuda<T>& args, cudaStream_t stream);

/// y = x * scale + bias [+ residual, or + residual * residual_scale + residual_bias], with `relu` max(y, 0). Moves
/// x + y [+ residual] [+ mask].
template <typename T>
struct BatchNormApplyCuda {
  int64_t rows = 0;
  int64_t channels = 0;
  bool relu = false;
  const T* x = nullptr;                   // [rows, channels]
  const float* scale = nullptr;           // [channels]
  const float* bias = nullptr;            // [channels]
  const T* residual = nullptr;            // [rows, channels], or null
  const float* residual_scale = nullptr;  // [channels]; null: the residual is added as it is
  const float* residual_bias = nullptr;   // [channels]; read only with residual_scale
  T* y = nullptr;                         // [rows, channels], overwritten; may be x or residual
  uint32_t* mask = nullptr;               // as in BatchNormForwardCuda
};

template <typename T>
void batch_norm_apply_cuda(const BatchNormApplyCuda<T>& args, cudaStream_t stream);

/// From sum(g) and sum(g * (x - mean)) over a batch, g being the gradient of the normalised values:
///   grad_beta = sum(g), grad_gamma = invstd * sum(g * (x - mean)),
///   grad_x = g * g_scale + (x - mean) * x_scale + offset.
/// Moves per-channel arrays only.
struct BatchNormBackwardFinishCuda {
  int64_t count = 0;  // rows of x
  int64_t channels = 0;
  const float* sum = nullptr;     // [channels]
  const float* dot = nullptr;     // [channels]
  const float* gamma = nullptr;   // [channels]
  const float* invstd = nullptr;  // [channels]
  float* grad_gamma = nullptr;    // [channels], overwritten; may be dot
  float* grad_beta = nullptr;     // [channels], overwritten; may be sum
  float* g_scale = nullptr;       // [channels], overwritten
  float* x_scale = nullptr;       // [channels], overwritten
  float* offset = nullptr;        // [channels], overwritten
};

void batch_norm_backward_finish_cuda(const BatchNormBackwardFinishCuda& args, cudaStream_t stream);

/// grad_x = g * g_scale + (x - mean) * x_scale + offset. Moves g + x + grad_x.
template <typename T>
struct BatchNormBackwardApplyCuda {
  int64_t rows = 0;
  int64_t channels = 0;
  const T* g = nullptr;            // [rows, channels]
  const T* x = nullptr;            // [rows, channels]
  const float* mean = nullptr;     // [channels]; null: 0, for an offset that holds the mean's part
  const float* g_scale = nullptr;  // [channels]
  const float* x_scale = nullptr;  // [channels]
  const float* offset = nullptr;   // [channels]
  T* grad_x = nullptr;             // [rows, channels], overwritten; may be g or x
};

template <typename T>
void batch_norm_backward_apply_cuda(const BatchNormBackwardApplyCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
