#pragma once
// --gradient-checkpointing and --memory-budget.

#include "engine/train/checkpoint.h"
#include "engine/train/run.h"

namespace engine {

/// Sets which blocks of the model are computed again in the backward pass, and logs it. `auto` plans for the budget
/// (what is free on the device where none is given), which everything that the run takes on the device counts for:
/// throws OutOfMemoryError with the smallest budget that can be kept where it cannot.
void apply_gradient_checkpointing(const TrainConfig& config, const RunParts& run, const TrainedParts& parts);

}  // namespace engine
