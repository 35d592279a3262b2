#include "engine/train/run.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/amp/precision.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/ops/device_path.h"
#include "engine/train/evaluation.h"
#include "engine/train/recomputation.h"
#include "engine/train/resume.h"
#include "engine/train/trainer.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

bool holds_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "metrics.jsonl", error) || fs::exists(folder / "config.toml", error) ||
         !CheckpointFolder(folder).steps().empty();
}

void write_run_files(const TrainConfig& config, const RunParts& parts) {
  const fs::path folder = config.output.output_dir;
  write_file(folder / "config.toml", config_text(parts.values));
  const nlohmann::json classes = parts.classes;
  write_file(folder / "classes.json", classes.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void log_start(const TrainConfig& config, const RunParts& parts, const TrainedParts& trained) {
  const auto& ranges = trained.parameters->ranges();
  const int64_t decayed = trained.optimizer->decayed_tensors();
  log_info("{}: {} parameters in {} tensors, {} of them with weight decay, {} without", config.model,
           trained.parameters->parameter_count(), ranges.size(), decayed,
           static_cast<int64_t>(ranges.size()) - decayed);
  log_info("training: {} pictures, {} steps an epoch, global batch {} ({} x {} accumulated)", parts.train->samples(),
           parts.train->steps_per_epoch(), config.batch_size * config.accumulate_steps, config.batch_size,
           config.accumulate_steps);
}

TrainProgress restore(const TrainConfig& config, const RunParts& parts, const TrainedParts& trained) {
  const auto file = find_checkpoint(config.output);
  if (!file) return {};
  check_resumable(values_of(*file), parts.values);
  const TrainProgress progress = load_checkpoint(*file, trained);
  log_info("resumed from {}: step {}, epoch {}", file->path(), progress.step, progress.epoch);
  return progress;
}

RunResult test_only(const RunParts& parts) {
  if (parts.validation == nullptr) {
    throw DataError("--test-only: got no validation part, expected one", "add a folder val/ to the data");
  }
  const EvalReport report = run_evaluation(*parts.model, *parts.validation, parts.progress);
  if (parts.progress != nullptr) parts.progress->on_eval(report);
  RunResult result;
  result.val_top1 = report.val_top1;
  return result;
}

}  // namespace

void prepare_output(const OutputConfig& output) {
  const fs::path folder = output.output_dir;
  if (output.resume.empty() && holds_run(folder)) {
    throw ConfigError(fmt::format("--output-dir: {}: got a folder with a run in it, expected an empty or new one",
                                  escaped(output.output_dir)),
                      "go on with --resume auto, or name another folder");
  }
  make_folder(folder);
  remove_stale_temporaries(folder);
}

RunResult run_training(const TrainConfig& config, const RunParts& parts) {
  const Precision precision = precision_of(config.precision).value();
  set_allow_tf32(precision == Precision::tf32);
  FlatParameters parameters(*parts.model, parts.device, compute_dtype_of(precision));
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  std::unique_ptr<WeightAverage> average;
  if (config.ema_decay > 0) average = std::make_unique<WeightAverage>(*parts.model, parameters, config.ema_decay);
  const TrainedParts trained{parts.model, &parameters, optimizer.get(), average.get()};

  const TrainProgress progress = restore(config, parts, trained);
  if (config.test_only) return test_only(parts);
  write_run_files(config, parts);
  log_start(config, parts, trained);
  apply_gradient_checkpointing(config, parts, trained);
  return Trainer(config, parts, trained, progress).run();
}

EvalReport run_evaluation(Module& model, BatchSource& source, ProgressListener* progress) {
  return evaluate_model(model, source, {progress, {}}).value();
}

}  // namespace engine
