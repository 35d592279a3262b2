#include "engine/train/step_mailbox.h"

#include <exception>
#include <new>

namespace engine {

StepMailbox::StepMailbox(const Stream& stream, size_t slots)
    : stream_(stream), memory_(static_cast<int64_t>(slots * sizeof(Letters))) {
  for (size_t i = 0; i < slots; ++i) {
    new (&letters(i)) Letters{};
    fetched_.push_back(std::make_unique<Event>(stream.device()));
  }
}

// A copy may still use the pinned memory.
StepMailbox::~StepMailbox() {
  try {
    stream_.synchronize();
  } catch (const std::exception&) {
    // The device has failed; nothing copies any more.
  }
}

size_t StepMailbox::send(const kernels::StepState& letter, kernels::StepState* state) {
  const size_t slot = next_;
  next_ = (next_ + 1) % fetched_.size();
  letters(slot).sent = letter;
  copy_async(state, &letters(slot).sent, kernels::kStepStateHostBytes, stream_);
  return slot;
}

void StepMailbox::fetch(size_t slot, const kernels::StepState* state) {
  copy_async(&letters(slot).fetched, state, sizeof(kernels::StepState), stream_);
  fetched_[slot]->record(stream_);
}

kernels::StepState StepMailbox::read(size_t slot) const {
  fetched_[slot]->synchronize();
  return letters(slot).fetched;
}

}  // namespace engine
