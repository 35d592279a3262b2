#pragma once
// What the host tells the steps on an accelerator and hears of them, through pinned memory.

#include <memory>
#include <vector>

#include "engine/core/pinned.h"
#include "engine/core/stream.h"
#include "kernels/common/step_state.h"

namespace engine {

/// Slots, used in turn by one step after another: neither side waits for the other until read() does. A slot is free
/// again when it was read, or when the stream is idle.
class StepMailbox {
 public:
  StepMailbox(const Stream& stream, size_t slots);
  /// Waits for the stream.
  ~StepMailbox();
  StepMailbox(const StepMailbox&) = delete;
  StepMailbox& operator=(const StepMailbox&) = delete;

  /// In the order of the stream, copies the host's part of `letter` to `state`, in the device's memory. Returns the
  /// slot.
  size_t send(const kernels::StepState& letter, kernels::StepState* state);
  /// In the order of the stream, copies `state` to the slot.
  void fetch(size_t slot, const kernels::StepState* state);
  /// What was fetched; waits until the stream is there.
  kernels::StepState read(size_t slot) const;

 private:
  struct Letters {
    kernels::StepState sent, fetched;
  };
  Letters& letters(size_t slot) const { return reinterpret_cast<Letters*>(memory_.data())[slot]; }

  const Stream& stream_;
  PinnedBuffer memory_;
  std::vector<std::unique_ptr<Event>> fetched_;  // one a slot
  size_t next_ = 0;
};

}  // namespace engine
