#pragma once
// Whole runs of tiny models in a temporary folder.

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/run.h"
#include "tests/support/fake_source.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {

/// Remembers what the trainer tells, and can send a signal in the middle.
class RecordingListener final : public ProgressListener {
 public:
  void on_step(const StepReport& report, bool logged) override {
    steps.push_back(report);
    logged_steps += logged ? 1 : 0;
    if (report.step == signal_at_step) signal = SIGTERM;
  }
  void on_evaluation(int64_t done, int64_t total) override {
    evaluations.emplace_back(done, total);
    if (signal_in_evaluation) signal = SIGINT;
  }
  void on_eval(const EvalReport& report) override { evals.push_back(report); }
  void clear() override {}

  std::vector<StepReport> steps;
  std::vector<std::pair<int64_t, int64_t>> evaluations;
  std::vector<EvalReport> evals;
  int64_t logged_steps = 0;
  int64_t signal_at_step = 0;
  bool signal_in_evaluation = false;
  std::atomic<int> signal = 0;
};

/// One process of a run: a fresh model, fresh sources.
struct TinyRun {
  TrainConfig config;
  FakeSourceOptions source{.samples = 18, .batch_size = 2, .accumulate_steps = 2};
  bool validation = true;
  bool plain_model = false;
  bool on_accelerator = false;
  int64_t poisoned = -1;
  BatchSource* train_on = nullptr;             // in place of random pictures
  BatchSource* held_out = nullptr;             // in place of the usual seven pictures
  std::function<void(Module&)> prepare_model;  // before training
  ConfigValues values = {{"lr", "0.05"}, {"epochs", "2"}, {"lr-scheduler", "\"cosine\""}};
  RecordingListener listener;

  explicit TinyRun(const std::string& folder) {
    config.model = "tiny";
    config.epochs = 2;
    config.batch_size = source.batch_size;
    config.accumulate_steps = source.accumulate_steps;
    config.optimizer.lr = 0.05;
    config.schedule.lr_scheduler = "cosine";
    config.schedule.lr_warmup_steps = 3;
    config.output.output_dir = folder;
    config.output.log_every = 1;
    config.output.keep_last = 100;
    config.ema_decay = 0.9;
  }

  RunResult run() {
    source.batch_size = config.batch_size;
    source.accumulate_steps = config.accumulate_steps;
    const auto model = plain_model ? make_plain_model(1) : make_tiny_model(1);
    FakeSource train(source);
    FakeSource seven({.samples = 7, .batch_size = 3, .training = false});
    if (prepare_model) prepare_model(*model);
    train.poison(poisoned);
    prepare_output(config.output);
    RunParts parts;
    parts.model = model.get();
    if (on_accelerator) parts.device = Device::accelerator();
    parts.train = train_on != nullptr ? train_on : &train;
    parts.validation = !validation ? nullptr : held_out != nullptr ? held_out : &seven;
    parts.classes = {"a", "b", "c"};
    parts.values = values;
    parts.progress = &listener;
    parts.stop_signal = &listener.signal;
    return run_training(config, parts);
  }
};

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Rows of metrics.jsonl of a kind ("train", "eval").
inline std::vector<nlohmann::json> rows_of(const std::filesystem::path& folder, const std::string& kind) {
  std::ifstream file(folder / "metrics.jsonl");
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) {
    auto row = nlohmann::json::parse(line);
    if (row.at("kind") == kind) rows.push_back(std::move(row));
  }
  return rows;
}

/// The numbers of one field.
inline std::vector<double> column(const std::vector<nlohmann::json>& rows, const std::string& field) {
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(row.at(field).get<double>());
  return values;
}

inline std::string checkpoint_name(int64_t step) {
  std::string digits = std::to_string(step);
  return "checkpoint-step-" + std::string(8 - digits.size(), '0') + digits + ".safetensors";
}

}  // namespace engine::testing
