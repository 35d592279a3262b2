#pragma once
// The gradients' norm, whether a step is applied, and the gradients' factor, all on the device (norm.h for the sums).
// A fixed order of summation: bit-equal from run to run.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/step_state.h"

namespace engine::kernels {

/// Sum of squares of a part of a buffer, in double, as those of float overflow a float. It is finite exactly where all
/// elements are: the squares of finite floats do not overflow a double.
struct NormPartial {
  double sum_of_squares;
};

/// How many partials gradient_norm_partials_cuda writes for a buffer: at most kMaxNormPartials, none for an empty one.
int norm_partials(int64_t count);
inline constexpr int kMaxNormPartials = 1056;

/// Overwrites partials[0 .. norm_partials(count)). gradients: [count], aligned to 16 bytes; T float, Half or BFloat16.
/// Call it for each buffer, with pointers to one array of partials, one behind the other. Reads each element once:
/// count * sizeof(T) bytes.
template <typename T>
void gradient_norm_partials_cuda(const T* gradients, int64_t count, NormPartial* partials, cudaStream_t stream);

/// Sets what follows from the partials [count], loss, scaling and clip_norm; scale is scaling's before the call:
///   grad_norm = sqrt(sum of the partials) / scale;  applied = grad_norm and loss are finite, and halted is 0
///   grad_factor = min(1, clip_norm / (grad_norm + 1e-6)) / scale, as torch.nn.utils.clip_grad_norm_
///   applied_steps += applied;  scaling = advanced(scaling, ...) (loss_scale.h), but for a halted step
///   halted = 1 where applied is 0 and scaling.skipped_in_a_row has come to most_skips
/// So the steps that a host has enqueued behind a halted one wait for its decision. With no partials the norm is 0.
/// Where applied is 0, grad_norm is what was found (perhaps not finite) and grad_factor 0.
void decide_step_cuda(StepState* state, const NormPartial* partials, int count, cudaStream_t stream);

}  // namespace engine::kernels
