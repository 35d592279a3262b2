#pragma once
// adam.h's update of all parameters in one launch. Learning rate, gradient factor and the number of the step come from
// the step's state; where the step is not applied nothing is read or written.

#include "kernels/common/device.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/step_state.h"

namespace engine::kernels {

/// Flat buffers, aligned to 16 bytes, no aliasing; all are indexed by the chunks' offsets. Elements outside of the
/// chunks are neither read nor written.
template <typename G, typename C>
struct AdamUpdate {
  const StepState* state = nullptr;        // decide_step_cuda has set it
  const ParameterChunk* chunks = nullptr;  // [chunk_count], in device memory
  int chunk_count = 0;
  float* master = nullptr;  // updated
  const G* gradients = nullptr;
  float* exp_avg = nullptr;     // updated; zeros before the first step
  float* exp_avg_sq = nullptr;  // updated; zeros before the first step
  C* compute_copy = nullptr;    // overwritten with the new weights, rounded to C; null: none
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decoupled = false;  // AdamW
  int64_t elements = 0;    // of all chunks, for the kernel report alone
};

/// (G, C): (float, float), (Half, Half), (BFloat16, BFloat16), (float, Half), (float, BFloat16). Bytes an element: 24,
/// sizeof(G), and sizeof(C) with a copy.
template <typename G, typename C>
void adam_step_cuda(const AdamUpdate<G, C>& update, cudaStream_t stream);

}  // namespace engine::kernels
