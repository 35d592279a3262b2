#pragma once
// The entry points of training and evaluation that engine_train's sub-commands call.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/train/batch_source.h"
#include "engine/train/config.h"
#include "engine/train/progress.h"

namespace engine {

/// What a run works with; made by engine/app from the configuration.
struct RunParts {
  Module* model = nullptr;
  Device device{};                    // where it trains
  BatchSource* train = nullptr;       // micro-batches in training order
  Shape picture{};                    // of the training part, {h, w, c}
  BatchSource* validation = nullptr;  // null: no evaluation
  std::vector<std::string> classes;   // in label order
  ConfigValues values;                // what is in force
  ProgressListener* progress = nullptr;
  const std::atomic<int>* stop_signal = nullptr;  // set by a signal handler to SIGINT or SIGTERM; 0: none
};

/// How a run ended.
struct RunResult {
  int64_t epochs = 0;  // finished ones, of all parts of the run
  int64_t steps = 0;
  double val_top1 = 0;  // of the last evaluation; NaN where there was none
  int stopped_by = 0;   // the signal, 0 where it ended by itself
};

/// Trains in config.output.output_dir, which exists and passed prepare_output(): metrics, log, TensorBoard,
/// checkpoints; resumes where config.output.resume says so. Throws the errors of section 4 of the interface: DataError,
/// CheckpointError, TrainingError (loss not finite), OutputError, OutOfMemoryError.
RunResult run_training(const TrainConfig& config, const RunParts& parts);

/// One pass over `source` in evaluation mode; unsmoothed loss.
EvalReport run_evaluation(Module& model, BatchSource& source, ProgressListener* progress = nullptr);

/// Makes the output folder, or checks that the one there may be used: it is empty, or holds a run and `resume` is set.
/// Throws ConfigError (a run in it, no resume) or OutputError.
void prepare_output(const OutputConfig& output);

}  // namespace engine
