#pragma once
// Which blocks to compute again in the backward pass so that a step fits into a budget of memory.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/flat_parameters.h"

namespace engine {

/// What giving up a block's activations saves and costs.
struct RecomputeCandidate {
  int64_t saved_bytes = 0;
  int64_t macs = 0;  // multiply-adds of the block's forward pass
};

/// The choice of least cost that saves at least `bytes`: indices in rising order; all of them where even that does not.
/// Savings are counted in parts of a thousandth of `bytes`, rounded down.
std::vector<size_t> cheapest_to_recompute(const std::vector<RecomputeCandidate>& candidates, int64_t bytes);

struct RecomputeRequest {
  Shape picture;  // {h, w, c}
  int64_t batch = 1;
  int64_t budget_bytes = 0;
  int64_t other_bytes = 0;  // of the budget that is or will be taken besides: parameters, optimizer, pictures
};

struct RecomputePlan {
  std::vector<std::string> blocks;  // which are computed again
  size_t of = 0;                    // how many there are
  int64_t peak_bytes = 0;           // predicted, with `other_bytes`
  int64_t plain_peak_bytes = 0;     // without computing anything again
  int64_t least_peak_bytes = 0;     // with all blocks
  double extra_macs = 0;            // relative to forward and backward without
  bool fits = false;
};

/// Sets the model's blocks to the cheapest choice that is predicted to stay below the budget, scratch included, or to
/// all of them where none does. Runs a few steps of two or three pictures (StepMemory), and on the CPU one of the batch
/// with all blocks computed again.
RecomputePlan plan_recomputation(Module& model, FlatParameters& parameters, const RecomputeRequest& request);

}  // namespace engine
