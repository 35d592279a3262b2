#pragma once
// The training loop.

#include <deque>
#include <optional>

#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/metrics_writer.h"
#include "engine/train/run.h"
#include "engine/train/throughput.h"
#include "engine/train/train_step.h"

namespace engine {

/// Runs epochs from where `progress` stands. What it does when it has a step's outcome, in this order: report and log
/// the step, act on values that are not finite, save, stop at --steps or at a signal. An accelerator's outcomes come
/// some steps late; where the state must be a certain step's (a checkpoint, an evaluation, the end) they are waited for
/// before another step begins.
class Trainer {
 public:
  Trainer(const TrainConfig& config, const RunParts& run, const TrainedParts& parts, TrainProgress progress);

  RunResult run();

 private:
  enum class EpochEnd { finished, stopped };

  RunResult run_epochs();

  EpochEnd run_epoch();
  /// Puts the next step on its way; false at the end of the epoch.
  bool begin_step();
  /// Whether the state behind the last step that was begun is needed.
  bool begun_steps_are_awaited() const;
  void take_outcomes(Lateness lateness);
  void after_step(const StepOutcome& outcome, double lr);
  void handle_not_applied(const StepOutcome& outcome, double lr);
  /// The same with loss scaling, where skipping a step now and then is how it works.
  void handle_overflow(const StepOutcome& outcome, double lr);
  void report_step(const StepOutcome& outcome, double lr);
  /// Evaluates, remembers the best; false where a signal cut it short.
  bool evaluate();
  /// Makes room for the evaluation by giving up recorded steps, if need be.
  std::optional<EvalReport> measure();
  void finish_epoch(bool evaluated);
  void save(bool is_best);
  bool reached_step_limit() const { return config_.steps > 0 && progress_.step >= config_.steps; }
  int stop_signal() const { return run_.stop_signal == nullptr ? 0 : run_.stop_signal->load(); }
  int64_t total_steps() const;
  /// Global batches that the schedule counts up to there; after a change of the batch size, as if it had always been
  /// so.
  int64_t schedule_position(int64_t epoch_position) const;

  struct BegunStep {
    double lr;
    int64_t position;  // of the epoch, behind it
  };

  const TrainConfig& config_;
  RunParts run_;
  TrainedParts parts_;
  TrainProgress progress_;
  RunIdentity identity_;
  int64_t steps_per_epoch_;
  Schedule schedule_;
  CheckpointFolder checkpoints_;
  MetricsWriter metrics_;
  bool scales_loss_;
  TrainStep step_;
  Throughput throughput_;
  std::optional<int64_t> saved_step_;
  bool new_best_ = false;
  std::deque<BegunStep> begun_;  // whose outcome is not there yet
  int64_t begun_step_;           // number of the last one
  int64_t begun_position_ = 0;   // of the epoch, behind it
  Shape last_batch_;             // of its pictures
  int64_t first_step_;
};

}  // namespace engine
