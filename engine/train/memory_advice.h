#pragma once
// What a user is told where a training runs out of memory.

#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "engine/train/config.h"

namespace engine {

/// Where a training stood when memory ran out.
struct ShortageSite {
  const TrainConfig& config;
  const TrainedParts& parts;
  Shape batch;         // [n, h, w, c] of the last batch; a scalar's shape where there was none
  int64_t step = 1;    // being made, counted from 1 over all runs
  int64_t fitted = 0;  // steps of this run before it
};

/// The error with the step, the layer whose output is the largest, and in place of its hint the batch size that would
/// fit by the activations of one picture (engine/profile/activation_memory.h).
OutOfMemoryError explained(const OutOfMemoryError& error, const ShortageSite& site);

/// Pictures that a micro-batch of a training can have on the device of the parameters: what is left beside weights,
/// gradients, optimizer state and scratch, less a twentieth for gaps, over what a picture takes. `picture` is
/// {h, w, c}. 0: not even one fits.
int64_t fitting_batch(const TrainedParts& parts, const Shape& picture);

}  // namespace engine
