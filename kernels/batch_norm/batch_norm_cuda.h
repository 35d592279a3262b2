#pragma once
// Batch normalisation on the device: the contract of batch_norm.h (Ioffe and Szegedy, ICML 2015, PyTorch's
// conventions) for x, y and their gradients stored as float, Half or BFloat16, with float parameters and statistics and
// arithmetic in float.
//   z = (x - mean) * invstd * gamma + beta [+ residual],   y = z or, with `relu`, max(z, 0) (NaN stays NaN)
// Each thread sums deviations from the first value that it sees; those sums are brought to the deviation from row 0 and
// added up in double, in an order that depends on the extents alone. So the variance is right for means far larger than
// the deviation, and results are bit-equal from run to run.
//
// Packs of 16 bytes are moved where channels is a multiple of 8 and all tensors start at multiples of 16 bytes (`mask`:
// of 4); elsewhere single elements. Device memory moved, in elements of [rows, channels]; m = 1/8 byte an element:
//   forward    2 x + y [+ residual] [+ m]         x twice, as y needs the statistics of all of x
//   inference  x + y [+ residual] [+ m]
//   backward   2 (x + grad_y [+ m]) + grad_x [+ grad_residual]      likewise
//   inference_backward   x + grad_y [+ m] + grad_x [+ grad_residual]
// and per-channel arrays: less than 2 MB of partial sums, which stay in the L2 cache. The apply passes walk from
// the last row to the first, so that they find in the cache what the pass before them touched last. A thread with packs
// of 16-bit types loads its 8 channels of a float vector in two halves of a sector each, so that where a thread has but
// a few packs (small tensors) 0.83 of what requests touch is used, the rest from the L1 cache. All functions only
// launch kernels whose shape depends on rows, channels and alignment; they throw CudaError where a launch is refused.

#include <cstddef>
#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/half.h"

namespace engine::kernels {

/// Bytes of workspace (256-byte aligned) that forward, backward and inference_backward need; inference needs none.
int64_t batch_norm_cuda_workspace_bytes(int64_t rows, int64_t channels);

template <typename T>
struct BatchNormForwardCuda {
  int64_t rows = 0;  // training: at least 2
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;
  bool relu = false;
  const T* x = nullptr;          // [rows, channels]
  const float* gamma = nullptr;  // [channels]
  const float* beta = nullptr;   // [channels]
  const T* residual = nullptr;   // [rows, channels], or null
  T* y = nullptr;                // [rows, channels], overwritten; may be x or residual
  uint32_t* mask = nullptr;  // ceil(rows * channels / 32) words, overwritten: bit i % 32 of word i / 32 says whether
                             // element i of z, before rounding to T, is not <= 0; bits behind the last element are
                             // 0. Read only with relu; null where not wanted
  float* running_mean = nullptr;  // [channels]; training: updated unless null; inference: read
  float* running_var = nullptr;   // [channels]; likewise
  float* saved_mean = nullptr;    // [channels]; training: overwritten; inference: not used
  float* saved_invstd = nullptr;  // [channels]; 1 / sqrt(variance over n + eps); likewise
  std::byte* workspace = nullptr;
};

/// Training: normalises with the statistics of the batch.
template <typename T>
void batch_norm_forward_cuda(const BatchNormForwardCuda<T>& args, cudaStream_t stream);

/// Evaluation: normalises with the running statistics, which stay as they are.
template <typename T>
void batch_norm_inference_cuda(const BatchNormForwardCuda<T>& args, cudaStream_t stream);

template <typename T>
struct BatchNormBackwardCuda {
  int64_t rows = 0;
  int64_t channels = 0;
  double eps = 1e-5;               // inference_backward only
  bool relu = false;               // the forward pass had it: gradient passes where not z <= 0 (so it passes at NaN)
  const T* x = nullptr;            // [rows, channels], as given to the forward pass
  const T* grad_y = nullptr;       // [rows, channels]
  const uint32_t* mask = nullptr;  // from the forward pass; read only with relu. Null: computed again from x and beta,
                                   // bit for bit, which is allowed where there was no residual
  const float* gamma = nullptr;    // [channels]
  const float* beta = nullptr;     // [channels]; read only where the mask is computed again
  const float* mean = nullptr;     // [channels]; backward: saved_mean; inference_backward: running_mean
  const float* invstd = nullptr;   // [channels]; backward: saved_invstd; inference_backward: null
  const float* running_var = nullptr;  // [channels]; inference_backward only
  T* grad_x = nullptr;                 // [rows, channels], overwritten; null where it is not wanted
  T* grad_residual = nullptr;   // [rows, channels], overwritten with the masked grad_y; null where not wanted, and
                                // where the mask is computed again (there was no residual then)
  float* grad_gamma = nullptr;  // [channels], overwritten
  float* grad_beta = nullptr;   // [channels], overwritten
  std::byte* workspace = nullptr;
};
// Aliasing in both backward functions: grad_x may be x or grad_y; grad_residual may be grad_y; grad_x and grad_residual
// must be different memory. The per-channel arrays overlap nothing. "May be" means the same pointer; partial overlap is
// never allowed.

/// Gradient of the training pass: through the statistics of the batch, too.
template <typename T>
void batch_norm_backward_cuda(const BatchNormBackwardCuda<T>& args, cudaStream_t stream);

/// Gradient of the evaluation pass: the running statistics are constants.
template <typename T>
void batch_norm_inference_backward_cuda(const BatchNormBackwardCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
