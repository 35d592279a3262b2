#pragma once
// The training loop.

#include <optional>

#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/metrics_writer.h"
#include "engine/train/run.h"
#include "engine/train/throughput.h"
#include "engine/train/train_step.h"

namespace engine {

/// Runs epochs from where `progress` stands. What it does between two steps, in this order: report and log the step,
/// act on values that are not finite, save, stop at --steps or at a signal.
class Trainer {
 public:
  Trainer(const TrainConfig& config, const RunParts& run, const TrainedParts& parts, TrainProgress progress);

  RunResult run();

 private:
  enum class EpochEnd { finished, stopped };

  EpochEnd run_epoch();
  /// Whether the run ends behind this step.
  bool after_step(const StepOutcome& outcome, double lr);
  void handle_not_applied(const StepOutcome& outcome, double lr);
  void report_step(const StepOutcome& outcome, double lr);
  /// Evaluates, remembers the best; false where a signal cut it short.
  bool evaluate();
  void finish_epoch(bool evaluated);
  void save(bool is_best);
  bool reached_step_limit() const { return config_.steps > 0 && progress_.step >= config_.steps; }
  int stop_signal() const { return run_.stop_signal == nullptr ? 0 : run_.stop_signal->load(); }
  int64_t total_steps() const;
  /// Global batches that the schedule counts up to now; after a change of the batch size, as if it had always been so.
  int64_t schedule_position() const;

  const TrainConfig& config_;
  RunParts run_;
  TrainedParts parts_;
  TrainProgress progress_;
  RunIdentity identity_;
  int64_t steps_per_epoch_;
  Schedule schedule_;
  CheckpointFolder checkpoints_;
  MetricsWriter metrics_;
  TrainStep step_;
  Throughput throughput_;
  std::optional<int64_t> saved_step_;
  bool new_best_ = false;
};

}  // namespace engine
