#pragma once
// Batch normalisation over the rows of [rows, channels] (NHWC: rows = n * h * w); Ioffe and Szegedy, "Batch
// Normalization" (ICML 2015), with PyTorch's conventions: the batch is normalised with the variance over n, the running
// variance takes the one over n - 1, and running = (1 - momentum) * running + momentum * batch.
//   z = (x - mean) * invstd * gamma + beta [+ residual],   y = z or, with `relu`, max(z, 0) (NaN stays NaN)
// Statistics are accumulated in double, in a form that keeps the variance right for means far larger than the
// deviation: exact mean and squared deviations chunk by chunk, merged as in Chan, Golub and LeVeque (1983).
//
// `_cpu` is the reference; `_fast` is the same contract for float, threaded, bit-equal from run to run with the same
// number of threads, and for Half and BFloat16: stored in 16 bits, computed in float and rounded once, with parameters,
// statistics and sums in float (Wide). The reference needs no workspace.

#include <cstddef>
#include <cstdint>

#include "kernels/common/wide.h"

namespace engine::kernels {

/// Bytes of workspace that each `_fast` function needs (64-byte aligned) with the present number of threads.
int64_t batch_norm_workspace_bytes(int64_t channels);

template <typename T>
struct BatchNormForward {
  int64_t rows = 0;  // training: at least 2
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;
  bool relu = false;
  const T* x = nullptr;             // [rows, channels]
  const Wide<T>* gamma = nullptr;   // [channels]
  const Wide<T>* beta = nullptr;    // [channels]
  const T* residual = nullptr;      // [rows, channels], or null
  T* y = nullptr;                   // [rows, channels], overwritten; may be x or residual
  Wide<T>* running_mean = nullptr;  // [channels]; training: updated unless null; inference: read
  Wide<T>* running_var = nullptr;   // [channels]; likewise
  Wide<T>* saved_mean = nullptr;    // [channels]; training: overwritten; inference: not used
  Wide<T>* saved_invstd = nullptr;  // [channels]; 1 / sqrt(variance over n + eps); likewise
  std::byte* workspace = nullptr;
};

/// Training: normalises with the statistics of the batch.
template <typename T>
void batch_norm_forward_cpu(const BatchNormForward<T>& args);
template <typename T>
void batch_norm_forward_fast(const BatchNormForward<T>& args);

/// Evaluation: normalises with the running statistics, which stay as they are.
template <typename T>
void batch_norm_inference_cpu(const BatchNormForward<T>& args);
template <typename T>
void batch_norm_inference_fast(const BatchNormForward<T>& args);

template <typename T>
struct BatchNormBackward {
  int64_t rows = 0;
  int64_t channels = 0;
  double eps = 1e-5;                // inference_backward only
  bool relu = false;                // the forward pass had it: gradient passes where not y <= 0 (so it passes at NaN)
  const T* x = nullptr;             // [rows, channels], as given to the forward pass
  const T* y = nullptr;             // [rows, channels], result of the forward pass; read only with relu. Null: the mask
                                    // is computed again from x and beta, bit for bit, which saves reading a tensor and
                                    // is allowed where there was no residual
  const T* grad_y = nullptr;        // [rows, channels]
  const Wide<T>* gamma = nullptr;   // [channels]
  const Wide<T>* beta = nullptr;    // [channels]; read only where the mask is computed again
  const Wide<T>* mean = nullptr;    // [channels]; backward: saved_mean; inference_backward: running_mean
  const Wide<T>* invstd = nullptr;  // [channels]; backward: saved_invstd; inference_backward: null
  const Wide<T>* running_var = nullptr;  // [channels]; inference_backward only
  T* grad_x = nullptr;                   // [rows, channels], overwritten; null where it is not wanted
  T* grad_residual = nullptr;            // [rows, channels], overwritten with the masked grad_y; null where not wanted
  Wide<T>* grad_gamma = nullptr;         // [channels], overwritten
  Wide<T>* grad_beta = nullptr;          // [channels], overwritten
  std::byte* workspace = nullptr;
};
// Aliasing in both backward functions: grad_x may be x, grad_y or y; grad_residual may be grad_y or y; grad_x and
// grad_residual must be different memory. The per-channel arrays overlap nothing. "May be" means the same pointer;
// partial overlap is never allowed.

/// Gradient of the training pass: through the statistics of the batch, too.
template <typename T>
void batch_norm_backward_cpu(const BatchNormBackward<T>& args);
template <typename T>
void batch_norm_backward_fast(const BatchNormBackward<T>& args);

/// Gradient of the evaluation pass: the running statistics are constants.
template <typename T>
void batch_norm_inference_backward_cpu(const BatchNormBackward<T>& args);
template <typename T>
void batch_norm_inference_backward_fast(const BatchNormBackward<T>& args);

}  // namespace engine::kernels
