#pragma once
// ema.h's average of many buffers (the flat weights, each layer's running statistics) in one launch.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/device.h"
#include "kernels/common/step_state.h"

namespace engine::kernels {

/// A buffer and its average, [count] each, aligned to 4 bytes; moved in vectors where aligned to 16. No aliasing.
struct EmaPair {
  const float* weights;
  float* average;  // updated
  int64_t count;
};

/// The pairs cut into parts that a block of threads deals with each, to be copied to the device.
std::vector<EmaPair> ema_parts(std::span<const EmaPair> pairs);

/// average = decay * average + (1 - decay) * weights for all parts [count, in device memory, from ema_parts], unless
/// state says that the step is not applied. Moves 12 bytes for each of the `elements` of all pairs, or nothing.
void ema_update_cuda(const StepState* state, double decay, const EmaPair* parts, int count, int64_t elements,
                     cudaStream_t stream);

}  // namespace engine::kernels
