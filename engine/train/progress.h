#pragma once
// What the trainer tells while it runs; engine/app draws it.

#include <cstdint>
#include <optional>

namespace engine {

/// One training step as it is shown and logged.
struct StepReport {
  int64_t step = 0;         // from 1
  int64_t total_steps = 0;  // of the run
  int64_t epoch = 0;        // from 0
  int64_t total_epochs = 0;
  int64_t epoch_step = 0;  // from 1, within the epoch
  int64_t steps_per_epoch = 0;
  double loss = 0;  // mean over the global batch
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double images_per_second = 0;
  double data_wait_fraction = 0;
  int64_t peak_memory_bytes = 0;
  double seconds_left = 0;  // of the run
  // With loss scaling, and only then.
  std::optional<double> loss_scale{};  // behind the step
  int64_t skipped_steps = 0;           // of the run so far
};

/// One pass over the validation part.
struct EvalReport {
  int64_t step = 0;
  int64_t epoch = 0;
  double val_loss = 0;
  double val_top1 = 0;  // percent
  double val_top5 = 0;
  int64_t images = 0;
  double seconds = 0;
};

/// Draws progress. Calls come from the training thread.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  /// After every step; `logged` at multiples of --log-every.
  virtual void on_step(const StepReport& report, bool logged) = 0;
  /// During evaluation: pictures done of all.
  virtual void on_evaluation(int64_t done, int64_t total) = 0;
  virtual void on_eval(const EvalReport& report) = 0;
  /// Before text of others goes to the terminal, and at the end.
  virtual void clear() = 0;
};

}  // namespace engine
