#pragma once
// Loss scaling: the loss is multiplied with a factor so that gradients in FP16 do not underflow, and the update divides
// by it (Micikevicius et al., "Mixed Precision Training", 2018). The dynamic rule is that of torch.amp.GradScaler: a
// step whose gradients are not finite is skipped and halves the factor; a run of good ones doubles it.

#include <cstdint>

namespace engine::kernels {

/// The factor and what it depends on; as it is, also a part of the state on a device.
struct LossScale {
  float scale = 1;
  int32_t good_steps = 0;        // since the factor last changed
  int32_t skipped_in_a_row = 0;  // up to now
  int32_t skipped = 0;           // in all
};

inline constexpr float kInitialLossScale = 65536.0F;
inline constexpr int32_t kLossScaleInterval = 2000;  // good steps, after which the factor doubles
inline constexpr float kLeastLossScale = 1.0F;
inline constexpr float kMostLossScale = 16777216.0F;  // 2^24
/// So many skipped steps in a row end a training: the factor has long been at its least by then.
inline constexpr int32_t kMostSkipsInARow = 50;

/// After a step. Only a dynamic factor moves; the counts always do.
constexpr LossScale advanced(LossScale state, bool applied, bool dynamic) {
  if (!applied) {
    ++state.skipped;
    ++state.skipped_in_a_row;
    state.good_steps = 0;
    if (dynamic) state.scale = state.scale * 0.5F < kLeastLossScale ? kLeastLossScale : state.scale * 0.5F;
    return state;
  }
  state.skipped_in_a_row = 0;
  if (!dynamic || ++state.good_steps < kLossScaleInterval) return state;
  state.good_steps = 0;
  state.scale = state.scale * 2.0F > kMostLossScale ? kMostLossScale : state.scale * 2.0F;
  return state;
}

}  // namespace engine::kernels
