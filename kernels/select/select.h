#pragma once
// Copies of many small buffers (running statistics, counters), and their restoration where a step turned out to be
// skipped.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/step_state.h"

namespace engine::kernels {

/// A buffer and its copy, `bytes` each, a multiple of 4, aligned to 4; moved in vectors where aligned to 16. No
/// aliasing.
struct KeptBuffer {
  void* live;
  void* kept;
  int64_t bytes;
};

/// The buffers cut into parts that a block of threads deals with each. Throws std::invalid_argument for bytes that are
/// negative or no multiple of 4.
std::vector<KeptBuffer> kept_parts(std::span<const KeptBuffer> buffers);

/// kept = live.
void keep_cpu(std::span<const KeptBuffer> buffers);

/// live = kept where the step was not applied; else nothing.
void restore_if_skipped_cpu(const StepState& state, std::span<const KeptBuffer> buffers);

}  // namespace engine::kernels
