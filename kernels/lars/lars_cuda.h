#pragma once
// lars.h's update of all parameters in three launches: squares of each chunk, ratio of each tensor, update. Learning
// rate and gradient factor come from the step's state; where the step is not applied nothing but the state is read, and
// nothing is written. A fixed order of summation: bit-equal from run to run.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/device.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/step_state.h"

namespace engine::kernels {

/// A tensor and its chunks; an array of it is read by kernels.
struct LarsTensor {
  int32_t first_chunk;
  int32_t chunk_count;
  float weight_decay;
  int32_t trust_ratio;  // 0: the ratio is 1
};

/// One a segment, for the chunks that parameter_chunks(segments) makes.
std::vector<LarsTensor> lars_tensors(std::span<const ParameterSegment> segments);

/// Flat buffers, aligned to 16 bytes, no aliasing; all are indexed by the chunks' offsets. Elements outside of the
/// chunks are neither read nor written.
template <typename G, typename C>
struct LarsUpdate {
  const StepState* state = nullptr;        // decide_step_cuda has set it
  const ParameterChunk* chunks = nullptr;  // [chunk_count], in device memory
  int chunk_count = 0;
  const LarsTensor* tensors = nullptr;  // [tensor_count], in device memory
  int tensor_count = 0;
  float* master = nullptr;  // updated
  const G* gradients = nullptr;
  float* momentum_buffer = nullptr;  // updated; null with momentum 0. Not read in the first applied step
  C* compute_copy = nullptr;         // overwritten with the new weights, rounded to C; null: none
  float momentum = 0;
  bool nesterov = false;
  float trust_coefficient = 0.001F;
  int64_t elements = 0;  // of all chunks, for the kernel report alone
};

/// A multiple of 16; the workspace is aligned to 16.
int64_t lars_workspace_bytes(int chunk_count, int tensor_count);

/// (G, C): (float, float), (Half, Half), (BFloat16, BFloat16), (float, Half), (float, BFloat16). Norms are summed in
/// double. Bytes an element: those of SGD and once more 4 + sizeof(G) for tensors with a trust ratio, as the norms must
/// be known before the first element is updated. The ratios' launch moves a few scalars a tensor, which fill no
/// sectors.
template <typename G, typename C>
void lars_step_cuda(const LarsUpdate<G, C>& update, void* workspace, cudaStream_t stream);

}  // namespace engine::kernels
