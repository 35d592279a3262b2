#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "engine/core/pinned.h"
#include "engine/core/stream.h"
#include "engine/train/batch_upload.h"
#include "engine/train/train_step.h"
#include "kernels/common/step_state.h"
#include "kernels/select/select.h"

namespace engine {

/// Steps on an accelerator. All decisions of a step are taken in its memory (kernels/common/step_state.h). The work of
/// a micro-batch, with the update where it is the step's last, is enqueued as it is the first time that its shape comes
/// up, so that libraries choose their plans, recorded the second time, and from then on replayed.
class DeviceStep final : public StepRunner {
 public:
  DeviceStep(const TrainedParts& parts, const TrainStepOptions& options);
  void add(const Batch& batch) override;
  StepOutcome finish(double lr) override;

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

  void begin_step();
  void run(const Form& form, const DeviceBatch* batch);
  void enqueue(const Form& form, const DeviceBatch* batch);
  void enqueue_update();
  /// Records the work; false where the runtime cannot, and then nothing is recorded any more.
  bool record(Work& work, const Form& form, const DeviceBatch* batch);
  void count_batches(int64_t by);
  kernels::StepState read_state();
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

  StepOutcome current_;
  Form last_form_;  // of the micro-batch that waits for finish()
  const DeviceBatch* last_batch_ = nullptr;
  int64_t micro_batches_ = 0;  // of this step, with pictures
  bool started_ = false;
};

}  // namespace engine
