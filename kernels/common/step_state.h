#pragma once
// What a training step decides on the device, so that the host need not wait for it and one captured graph serves all
// steps.

#include <cstddef>
#include <cstdint>

#include "kernels/common/loss_scale.h"

namespace engine::kernels {

/// One of it in device memory, all bytes of which are set (to zeros, say) before first use. The host copies the first
/// kStepStateHostBytes before a step; kernels write the rest. Each part begins a sector of memory.
struct alignas(64) StepState {
  float lr = 0;
  float clip_norm = 0;        // largest norm of the unscaled gradients; 0: no clipping
  int32_t dynamic_scale = 0;  // whether scaling.scale follows what happens
  int32_t most_skips = 1;     // steps in a row that may go by without being applied, the last of which halts

  alignas(32) LossScale scaling{};  // its scale is what the loss is multiplied with, above 0; 1: nothing
  float loss = 0;                   // sum over the step's micro-batches, unscaled; must be 0 before the first of them
  float grad_norm = 0;              // of all gradients, unscaled, before clipping
  float grad_factor = 0;            // what the update multiplies each gradient with: clipping / scale, or 0
  int32_t applied = 0;              // 0: loss or gradients were not finite, so nothing that is kept must change
  int64_t applied_steps = 0;        // updates that were applied, the present one included: Adam's t. 0 at the start
  int32_t halted = 0;  // 1 behind most_skips steps that were not applied: none is, until the host sets this to 0
};

inline constexpr size_t kStepStateHostBytes = offsetof(StepState, scaling);

}  // namespace engine::kernels
