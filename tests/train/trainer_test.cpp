// What a run leaves and tells.

#include "engine/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/train/trainer_fixture.h"

namespace engine::testing {
namespace {

std::vector<int64_t> checkpoints_in(const TempDir& folder) { return CheckpointFolder(folder.path()).steps(); }

TEST(Trainer, MetricsHaveARowAStepAndAnEpoch) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.config.output.log_every = 2;
  const RunResult result = run.run();
  EXPECT_EQ(result.steps, 10);
  EXPECT_EQ(result.epochs, 2);
  EXPECT_EQ(result.stopped_by, 0);
  const auto train = rows_of(folder.path(), "train"), eval = rows_of(folder.path(), "eval");
  EXPECT_EQ(column(train, "step"), (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ(column(train, "epoch"), (std::vector<double>{0, 0, 1, 1, 1}));
  for (const auto& row : train) {
    std::set<std::string> fields;
    for (const auto& [name, value] : row.items()) fields.insert(name);
    EXPECT_EQ(fields, (std::set<std::string>{"kind", "step", "epoch", "loss", "lr", "grad_norm", "images_per_second",
                                             "data_wait_fraction", "peak_memory_bytes"}));
    EXPECT_GT(row["loss"].get<double>(), 0);
    EXPECT_GT(row["grad_norm"].get<double>(), 0);
    EXPECT_GT(row["images_per_second"].get<double>(), 0);
    EXPECT_GT(row["peak_memory_bytes"].get<int64_t>(), 0);
  }
  EXPECT_EQ(column(eval, "step"), (std::vector<double>{5, 10}));
  EXPECT_EQ(column(eval, "epoch"), (std::vector<double>{0, 1}));
  EXPECT_EQ(column(eval, "images"), (std::vector<double>{7, 7}));
  EXPECT_EQ(column(eval, "val_top1").back(), result.val_top1);
  EXPECT_TRUE(eval[0].contains("ema_val_top1"));
}

TEST(Trainer, TellsTheListenerEachStepAndTheWayToGo) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.config.output.log_every = 3;
  run.run();
  ASSERT_EQ(run.listener.steps.size(), 10u);
  EXPECT_EQ(run.listener.logged_steps, 3);
  for (size_t i = 0; i < 10; ++i) {
    const StepReport& report = run.listener.steps[i];
    EXPECT_EQ(report.step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(report.total_steps, 10);
    EXPECT_EQ(report.epoch, static_cast<int64_t>(i) / 5);
    EXPECT_EQ(report.epoch_step, static_cast<int64_t>(i) % 5 + 1);
    EXPECT_EQ(report.steps_per_epoch, 5);
    EXPECT_EQ(report.total_epochs, 2);
  }
  // Two passes an epoch: the weights, then their average; three batches each.
  EXPECT_EQ(run.listener.evaluations.size(), 2u * 2 * 3);
  EXPECT_EQ(run.listener.evaluations.back(), (std::pair<int64_t, int64_t>{7, 7}));
  EXPECT_EQ(run.listener.evals.size(), 2u);
}

TEST(Trainer, FilesOfARun) {
  const TempDir folder;
  TinyRun run(folder.str());
  const std::string log_file = (folder.path() / "train.log").string();
  add_log_file(log_file);
  run.run();
  EXPECT_EQ(bytes_of(folder.path() / "config.toml"), "lr = 0.05\nepochs = 2\nlr-scheduler = \"cosine\"\n");
  EXPECT_EQ(nlohmann::json::parse(bytes_of(folder.path() / "classes.json")), nlohmann::json({"a", "b", "c"}));
  EXPECT_NE(bytes_of(log_file).find("519 parameters in 6 tensors"), std::string::npos);
  EXPECT_NE(bytes_of(log_file).find("global batch 4"), std::string::npos);
  EXPECT_EQ(checkpoints_in(folder), (std::vector<int64_t>{5, 10}));
  const SafetensorsFile file = open_checkpoint(folder.path() / "last.safetensors");
  const Metadata& metadata = file.metadata();
  for (const char* key : {"format", "model", "step", "epoch", "config", "classes", "sampler", "rng", "scheduler",
                          "loss_scaler", "best", "data_sha256"}) {
    EXPECT_TRUE(metadata.contains(key)) << key;
  }
  EXPECT_EQ(metadata.at("step"), "10");
  EXPECT_EQ(values_of(file), run.values);
  for (const char* name : {"model.conv.weight", "ema.conv.weight", "optimizer.momentum.conv.weight",
                           "model.bn.running_var", "model.bn.num_batches_tracked", "ema.bn.running_mean"}) {
    EXPECT_NE(file.find(name), nullptr) << name;
  }
  // Layouts are PyTorch's: [out, in, height, width].
  EXPECT_EQ(file.find("model.conv.weight")->shape, (Shape{4, 2, 3, 3}));
}

TEST(Trainer, WithoutValidationThereIsNoEvaluationAndNoBest) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.validation = false;
  const RunResult result = run.run();
  EXPECT_EQ(result.epochs, 2);
  EXPECT_TRUE(std::isnan(result.val_top1));
  EXPECT_TRUE(rows_of(folder.path(), "eval").empty());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "best.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "last.safetensors"));
}

TEST(Trainer, ASignalStopsAfterTheStepWithACheckpoint) {
  for (const int64_t step : {1, 3, 5, 7}) {
    const TempDir folder;
    TinyRun run(folder.str());
    run.config.output.save_every_epochs = 0;
    run.config.output.keep_last = 1;
    run.listener.signal_at_step = step;
    const RunResult result = run.run();
    EXPECT_EQ(result.stopped_by, SIGTERM);
    EXPECT_EQ(result.steps, step);
    EXPECT_EQ(run.listener.steps.size(), static_cast<size_t>(step));
    EXPECT_EQ(checkpoints_in(folder).back(), step);
  }
}

TEST(Trainer, ASignalDuringEvaluationLeavesItToTheNextRun) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.listener.signal_in_evaluation = true;
  const RunResult result = run.run();
  EXPECT_EQ(result.stopped_by, SIGINT);
  EXPECT_EQ(result.steps, 5);
  EXPECT_EQ(run.listener.evaluations.size(), 1u);
  EXPECT_TRUE(rows_of(folder.path(), "eval").empty());
  EXPECT_EQ(checkpoints_in(folder), std::vector<int64_t>{5});
  TinyRun second(folder.str());
  second.config.output.resume = "auto";
  EXPECT_EQ(second.run().steps, 10);
  EXPECT_EQ(column(rows_of(folder.path(), "eval"), "step"), (std::vector<double>{5, 10}));
}

TEST(Trainer, StepsStopARunWithACheckpoint) {
  for (const int64_t steps : {2, 5, 8}) {
    const TempDir folder;
    TinyRun run(folder.str());
    run.config.steps = steps;
    const RunResult result = run.run();
    EXPECT_EQ(result.steps, steps);
    EXPECT_EQ(result.stopped_by, 0);
    EXPECT_EQ(checkpoints_in(folder).back(), steps);
    EXPECT_EQ(run.listener.steps.back().total_steps, steps);
    // A limit at the end of an epoch still ends it.
    EXPECT_EQ(result.epochs, steps / 5);
    EXPECT_EQ(rows_of(folder.path(), "eval").size(), static_cast<size_t>(steps / 5));
  }
}

TEST(Trainer, SavesEverySoManyStepsAndKeepsTheLast) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.validation = false;
  run.config.output.save_every_steps = 2;
  run.config.output.save_every_epochs = 0;
  run.config.output.keep_last = 2;
  run.run();
  EXPECT_EQ(checkpoints_in(folder), (std::vector<int64_t>{8, 10}));
}

TEST(Trainer, LearnsWhatThereIsToLearn) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.config.epochs = 12;
  run.run();
  const auto losses = column(rows_of(folder.path(), "train"), "loss");
  EXPECT_LT(losses.back(), losses.front() / 2);
}

TEST(Trainer, EvaluatesOnceAlone) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.run();
  TinyRun only(folder.str());
  only.config.output.resume = "auto";
  only.config.test_only = true;
  const RunResult result = only.run();
  EXPECT_EQ(result.val_top1, first.listener.evals.back().val_top1);
  EXPECT_TRUE(only.listener.steps.empty());
  TinyRun without(folder.str());
  without.config.output.resume = "auto";
  without.config.test_only = true;
  without.validation = false;
  EXPECT_THROW(without.run(), DataError);
}

/// Ten pictures of which a given number are of class 0, another number at each pass.
class ScriptedSource final : public FakeSource {
 public:
  explicit ScriptedSource(std::vector<int64_t> right)
      : FakeSource({.samples = 10, .batch_size = 10, .training = false}), right_(std::move(right)) {}
  void start(int64_t epoch, int64_t first_sample) override {
    FakeSource::start(epoch, first_sample);
    ++pass_;
  }
  std::optional<Batch> next() override {
    auto batch = FakeSource::next();
    if (!batch) return batch;
    for (int64_t i = 0; i < 10; ++i) batch->labels.data<int64_t>()[i] = i < right_.at(pass_ - 1) ? 0 : 1;
    return batch;
  }

 private:
  std::vector<int64_t> right_;
  size_t pass_ = 0;
};

/// A model that says class 0 to everything and learns nothing.
void make_constant(TinyRun& run) {
  run.plain_model = true;
  run.config.optimizer.lr = 0;
  run.config.ema_decay = 0;
  run.prepare_model = [](Module& model) {
    for (const NamedTensor& named : model.parameters()) named.tensor.fill(0);
  };
}

TEST(Cases, H_REQ_03_TenEpochsWithAResumeBetween) {
  const TempDir folder;
  ScriptedSource scripted({1, 5, 2, 5, 3, 4, 9, 8, 7, 6});
  for (const int64_t steps : {4, 8, 0}) {
    TinyRun run(folder.str());
    make_constant(run);
    run.held_out = &scripted;
    run.source.samples = 4;  // one step an epoch
    run.config.epochs = 10;
    run.config.steps = steps;
    run.config.output.keep_last = 2;
    run.config.output.resume = steps == 4 ? "" : "auto";
    run.run();
    // Of the two epochs with 5 the first is the best.
    const int64_t best = steps == 4 ? 2 : 7;
    EXPECT_EQ(open_checkpoint(folder.path() / "best.safetensors").metadata().at("step"), std::to_string(best));
  }
  EXPECT_EQ(column(rows_of(folder.path(), "eval"), "val_top1"),
            (std::vector<double>{10, 50, 20, 50, 30, 40, 90, 80, 70, 60}));
  EXPECT_EQ(checkpoints_in(folder), (std::vector<int64_t>{7, 9, 10}));
  EXPECT_EQ(open_checkpoint(folder.path() / "last.safetensors").metadata().at("step"), "10");
}

TEST(Cases, H_REQ_02_StopsAtTheFirstLossThatIsNotFinite) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.poisoned = 7;
  run.config.output.save_every_epochs = 0;
  const std::string message = message_of<TrainingError>([&] { run.run(); });
  const int64_t done = static_cast<int64_t>(run.listener.steps.size());
  ASSERT_LT(done, 5);
  for (const std::string& part :
       {"step " + std::to_string(done + 1), std::string("loss nan"), std::string("learning rate 0.0"),
        std::string("first in the pictures"), std::string("samples "), std::string("7")}) {
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }
  // The last finite state is saved.
  if (done > 0) {
    EXPECT_EQ(checkpoints_in(folder), std::vector<int64_t>{done});
  }
}

TEST(Cases, H_REQ_02_AHugeRateEndsInAnErrorAndNoBadCheckpoint) {
  for (const double lr : {1e6, 1e38, 1e39}) {
    const TempDir folder;
    TinyRun run(folder.str());
    run.plain_model = true;
    run.config.epochs = 200;
    run.config.optimizer.lr = lr;
    run.config.schedule = {};
    run.config.schedule.lr_scheduler = "constant";
    run.config.output.save_every_steps = 1;
    run.config.output.keep_last = 3;
    run.config.ema_decay = 0;
    EXPECT_THROW(run.run(), TrainingError) << lr;
    for (const int64_t step : checkpoints_in(folder)) {
      const SafetensorsFile file = open_checkpoint(CheckpointFolder(folder.path()).path_of(step));
      for (const TensorInfo& info : file.tensors()) {
        if (info.dtype != DType::f32 || !info.name.starts_with("model.")) continue;
        std::vector<float> values(static_cast<size_t>(info.shape.numel()));
        file.read(info, std::as_writable_bytes(std::span(values)));
        for (const float value : values)
          ASSERT_TRUE(std::isfinite(value)) << lr << " step " << step << " " << info.name;
      }
    }
  }
}

TEST(Cases, H_REQ_02_SkippingIsLoggedCountedAndBounded) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.poisoned = 7;
  run.config.on_nonfinite = "skip";
  {
    const LogCapture log;
    EXPECT_EQ(run.run().steps, 10);
    EXPECT_EQ(log.count(LogLevel::warning, "step skipped"), 2);
    EXPECT_EQ(log.count(LogLevel::warning, "first in the pictures"), 2);
  }
  const TempDir other;
  TinyRun hopeless(other.str());
  hopeless.config.on_nonfinite = "skip";
  hopeless.config.epochs = 100;
  hopeless.source.samples = 4;
  hopeless.poisoned = 2;
  hopeless.validation = false;
  EXPECT_THROW(hopeless.run(), TrainingError);
  EXPECT_EQ(hopeless.listener.steps.size(), 49u);
}

}  // namespace
}  // namespace engine::testing
