#include <omp.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>

#include "engine/app/commands.h"
#include "engine/app/data_parts.h"
#include "engine/app/open_device.h"
#include "engine/app/options.h"
#include "engine/app/progress_display.h"
#include "engine/app/signals.h"
#include "engine/app/standard_output.h"
#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/state_dict.h"
#include "engine/train/run.h"

namespace engine {
namespace {

std::string default_output_dir(const std::string& model) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return fmt::format("runs/{}-{}", model, stamp);
}

/// The output folder, which goes again if nothing came to be in it.
class OutputFolder {
 public:
  explicit OutputFolder(const OutputConfig& output) : path_(output.output_dir) {
    std::error_code ignored;
    made_here_ = !std::filesystem::exists(path_, ignored);
    prepare_output(output);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder() {
    std::error_code ignored;
    if (made_here_) std::filesystem::remove(path_, ignored);  // removes an empty folder only
  }

 private:
  std::filesystem::path path_;
  bool made_here_ = false;
};

/// Keeps the bar and the log out of each other's way for as long as it lives.
class LogObserver {
 public:
  explicit LogObserver(ProgressListener& progress) {
    set_log_observer([&progress] { progress.clear(); });
  }
  LogObserver(const LogObserver&) = delete;
  LogObserver& operator=(const LogObserver&) = delete;
  ~LogObserver() { set_log_observer({}); }
};

void announce_data(const TrainConfig& config, const DataParts& parts) {
  if (config.data.dataset == "samples") {
    log_info("no --data-path given: training on the bundled {}; name your own data with --data-path FOLDER",
             config.model == "simplecnn" ? "digits" : "photos of hand signs");
  }
  log_info("data: {}", parts.sets.summary);
  if (!parts.validation) log_info("no validation part: training without evaluation");
}

/// All values in force, a line for each task.
void announce_values(const ConfigValues& values) {
  std::string task, line;
  for (const auto& [name, value] : values) {
    const std::string& next = find_flag(name)->task;
    if (next != task && !line.empty()) log_info("{}: {}", task, line);
    if (next != task) line.clear();
    task = next;
    line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", name, value);
  }
  if (!line.empty()) log_info("{}: {}", task, line);
}

/// The number of outputs: the flag's, or the data's.
int64_t decide_num_classes(const TrainConfig& config, const std::vector<std::string>& classes) {
  const auto in_data = static_cast<int64_t>(classes.size());
  if (config.num_classes == 0) return in_data;
  if (config.num_classes < in_data) {
    throw ConfigError(fmt::format("command line: --num-classes: got {}, expected at least the data's {}",
                                  config.num_classes, in_data));
  }
  return config.num_classes;
}

std::unique_ptr<Module> make_model(const TrainConfig& config, const models::ModelInfo& info) {
  auto model = info.make(
      {.num_classes = config.num_classes, .seed = config.seed, .zero_init_residual = config.zero_init_residual});
  if (!config.init_weights.empty()) {
    const SafetensorsFile file = SafetensorsFile::open(config.init_weights);
    load_tensors(file, file_tensors(*model), {.prefix = "", .head = config.reset_head ? info.head : ""});
  }
  return model;
}

void report_skipped(const DataParts& parts) {
  std::vector<std::string> names = parts.train->skipped();
  if (parts.validation) {
    const auto& more = parts.validation->skipped();
    names.insert(names.end(), more.begin(), more.end());
  }
  if (names.empty()) return;
  log_warn("{} pictures could not be read and were skipped:", names.size());
  for (const std::string& name : names) log_warn("  {}", escaped(name));
}

std::string last_line(const RunResult& result, const std::string& folder) {
  const std::string top1 = std::isfinite(result.val_top1) ? fmt::format("{:.2f} %", result.val_top1) : "none";
  return fmt::format("done: {} epochs, {} steps, val_top1 {}, {}\n", result.epochs, result.steps, top1,
                     escaped(folder));
}

/// What a run needs beside its configuration, alive for as long as it runs.
struct Run {
  Settings settings;
  std::optional<OutputFolder> folder;
  Device device;
  DataParts data;
  std::unique_ptr<Module> model;
};

void prepare(Run& run) {
  TrainConfig& config = run.settings.run;
  const models::ModelInfo& info = models::find_model(config.model);
  omp_set_num_threads(config.threads);
  run.device = open_device(config);
  run.folder.emplace(config.output);
  run.data = open_data(config, info, {}, true);
  config.num_classes = decide_num_classes(config, run.data.sets.classes);
  run.model = make_model(config, info);
}

}  // namespace

int train_command(const CommandLine& line) {
  Run run;
  run.settings = resolve(merge_config_file(line.flags, kTrain), kTrain);
  TrainConfig& config = run.settings.run;
  if (config.output.output_dir.empty()) config.output.output_dir = default_output_dir(config.model);
  prepare(run);

  ProgressDisplay progress(stdout, progress_style(stdout, config.output.quiet));
  const LogObserver observer(progress);
  RunParts parts;
  parts.device = run.device;
  parts.model = run.model.get();
  parts.train = run.data.train.get();
  const int64_t side = config.data.train_crop_size;
  parts.picture = Shape{side, side, models::find_model(config.model).channels};
  parts.validation = run.data.validation.get();
  parts.classes = run.data.sets.classes;
  parts.values = values_in_force(run.settings);
  parts.progress = &progress;
  parts.stop_signal = &stop_signal();
  const std::filesystem::path log_file = config.output.log_file;
  add_log_file(log_file.empty() ? (std::filesystem::path(config.output.output_dir) / "train.log").string()
                                : log_file.string());
  announce_data(config, run.data);
  announce_values(parts.values);
  install_signal_handlers();
  const RunResult result = run_training(config, parts);
  finish_device(config, run.device);
  progress.clear();
  report_skipped(run.data);
  if (result.stopped_by != 0) {
    log_info("stopped by {} after {} steps; --resume auto --output-dir {} goes on from there",
             result.stopped_by == SIGINT ? "SIGINT" : "SIGTERM", result.steps, escaped(config.output.output_dir));
    return 128 + result.stopped_by;
  }
  print(last_line(result, config.output.output_dir));
  return 0;
}

}  // namespace engine
