#pragma once
// How much memory a training step takes at a batch that has not been run.

#include <cstdint>
#include <vector>

#include "engine/core/memory_trace.h"
#include "engine/nn/flat_parameters.h"

namespace engine {

/// The allocations and releases of one step's forward and backward pass as linear functions of the batch size. Found by
/// two steps of a few pictures, on the model's device, with the model as it is (checkpointed blocks as set). Exact
/// where every tensor has the batch as an extent or does not depend on it, and the operations go the same way at every
/// batch size; the scratch of convolutions is neither, and is taken from the larger of the two steps.
class StepMemory {
 public:
  /// Pictures are {h, w, c}. Leaves the model's weights, statistics, counters and mode as they were, and its gradients
  /// cleared. Throws what the steps throw; engine::Error where the two do not correspond.
  static StepMemory measure(Module& model, FlatParameters& parameters, const Shape& picture);

  /// Bytes above what is live when the step begins, at the worst moment, pictures and labels not counted.
  int64_t peak(int64_t batch) const;

 private:
  struct Event {
    MemoryCategory category;
    int64_t fixed;
    int64_t per_picture;
  };
  std::vector<Event> events_;
};

}  // namespace engine
