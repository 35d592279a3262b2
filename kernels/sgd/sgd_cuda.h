#pragma once
// sgd.h's update of all parameters in one launch. Learning rate and gradient factor come from the step's state; where
// the step is not applied nothing is read or written.

#include "kernels/common/device.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/step_state.h"

namespace engine::kernels {

/// Flat buffers, aligned to 16 bytes, no aliasing; all are indexed by the chunks' offsets. Elements outside of the
/// chunks are neither read nor written.
template <typename G, typename C>
struct SgdUpdate {
  const StepState* state = nullptr;        // decide_step_cuda has set it
  const ParameterChunk* chunks = nullptr;  // [chunk_count], in device memory
  int chunk_count = 0;
  float* master = nullptr;  // updated
  const G* gradients = nullptr;
  float* momentum_buffer = nullptr;  // updated; null with momentum 0. Not read in the first applied step
  C* compute_copy = nullptr;         // overwritten with the new weights, rounded to C; null: none
  float momentum = 0;
  bool nesterov = false;
  int64_t elements = 0;  // of all chunks, for the kernel report alone
};

/// (G, C): (float, float), (Half, Half), (BFloat16, BFloat16), (float, Half), (float, BFloat16). Bytes an element: 8
/// for the weights, 8 for the momentum (4 in the first step), sizeof(G), and sizeof(C) with a copy.
template <typename G, typename C>
void sgd_step_cuda(const SgdUpdate<G, C>& update, cudaStream_t stream);

}  // namespace engine::kernels
