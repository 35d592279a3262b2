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
  struct Bytes {
    int64_t fixed = 0;
    int64_t per_picture = 0;
    int64_t at(int64_t batch) const { return fixed + batch * per_picture; }
  };
  std::vector<Bytes> events_;
};

/// Scratch that the CPU's convolutions hold besides, found by a whole step of `batch` pictures: it follows the choice
/// of algorithms, not the batch. 0 on other devices. Leaves the model as measure() does.
int64_t scratch_of_step(Module& model, FlatParameters& parameters, const Shape& picture, int64_t batch);

}  // namespace engine
