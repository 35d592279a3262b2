#pragma once

#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "engine/core/stream.h"
#include "engine/train/batch_upload.h"
#include "engine/train/step_mailbox.h"
#include "engine/train/train_step.h"
#include "kernels/common/step_state.h"
#include "kernels/select/select.h"

namespace engine {

/// Steps on an accelerator. All decisions of a step are taken in its memory (kernels/common/step_state.h). The work of
/// a micro-batch, with the update where it is the step's last, is enqueued as it is the first time that its shape comes
/// up, so that libraries choose their plans, recorded the second time, and from then on replayed.
///
/// The host enqueues steps before it knows how those before them went. Behind one that is not applied the device
/// applies none (StepState::halted), so that all is as that step left it when the host hears of it; then they are done
/// again, from the micro-batches that are kept until their outcome is known.
class DeviceStep final : public StepRunner {
 public:
  DeviceStep(const TrainedParts& parts, const TrainStepOptions& options);
  void add(const Batch& batch) override;
  void end(double lr) override;
  std::optional<StepOutcome> take(Lateness lateness) override;
  bool forget_recorded() override;

 private:
  /// What makes work another work; no extents where there is nothing but the update.
  struct Form {
    std::vector<int64_t> extents;  // of the pictures
    int64_t global_samples = 0;
    bool first = false, last = false;
    auto operator<=>(const Form&) const = default;
  };
  struct Work {
    int64_t runs = 0;
    std::unique_ptr<RecordedWork> recorded;
  };

  /// A step from its first micro-batch until its outcome is taken.
  struct Step {
    StepOutcome outcome;
    std::vector<Batch> batches;  // with pictures: to do the step again, or to find the suspect
    double lr = 0;
    int64_t enqueued = 0;  // micro-batches with pictures, the last one of which may wait for end()
    int64_t counted = 0;   // of them in the model's counters
    Form last_form;
    const DeviceBatch* last_batch = nullptr;
    std::optional<size_t> slot;  // of the mailbox, where the outcome is on its way
    bool ended = false, decided = false;
  };

  Step& open_step();
  void enqueue_batch(Step& step, const Batch& batch);
  void enqueue_end(Step& step);
  /// Learns how it went; waits for that.
  void decide(Step& step);
  /// Behind a step that was not applied.
  void halt(Step& step);
  /// When its outcome was taken: does the steps behind it again.
  void go_on();
  /// Forgets the first micro-batch of the open step, where that will not be done again.
  void release_batch();
  size_t undecided() const;
  kernels::StepState letter(double lr) const;

  void run(const Form& form, const DeviceBatch* batch);
  void enqueue(const Form& form, const DeviceBatch* batch);
  void enqueue_update();
  void restore_if_skipped();
  /// Before new work: recorded work keeps its memory, and goes where there is not enough beside it.
  void make_room(const Form& form);
  /// Records the work and runs it; false where the runtime cannot, and then nothing is recorded any more.
  bool record(Work& work, const Form& form, const DeviceBatch* batch);
  void count_batches(int64_t by);
  kernels::StepState* state() const;
  /// The part of the state that begins so many bytes behind its beginning, as one f32.
  Tensor state_value(size_t offset) const;

  TrainedParts parts_;
  TrainStepOptions options_;
  Device device_;
  const Stream& stream_;
  BatchUpload upload_;
  Tensor state_;            // a StepState, as f32 elements
  Tensor partials_;         // of the gradients' norm
  Tensor kept_statistics_;  // as they were before the step
  Tensor kept_table_;       // kernels/select's table of them
  int kept_count_ = 0;
  std::map<Form, Work> works_;

  StepMailbox mailbox_;
  std::deque<Step> steps_;
  bool halted_ = false;  // a step was not applied, and nothing is enqueued until its outcome is taken
};

}  // namespace engine
