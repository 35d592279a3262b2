// Whole runs on the accelerator of the build, whose outcomes come late: files, messages and the end of a run are those
// of steps that are waited for.

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/train/trainer_fixture.h"

namespace engine::testing {
namespace {

class DeviceTrainerTest : public AcceleratorTest {};

struct DeviceRun : TinyRun {
  explicit DeviceRun(const TempDir& folder) : TinyRun(folder.str()) { on_accelerator = true; }
};

std::vector<int64_t> checkpoints_in(const TempDir& folder) { return CheckpointFolder(folder.path()).steps(); }

/// Of all tensors: weights, averages, optimizer state, statistics, counters.
std::string digest_of(const TempDir& folder, int64_t step) {
  return open_checkpoint(CheckpointFolder(folder.path()).path_of(step)).metadata().at("data_sha256");
}

// A checkpoint after each step needs each step's state.
TEST_F(DeviceTrainerTest, RowsAndFilesAreThoseOfStepsThatAreWaitedFor) {
  for (const bool recorded : {true, false}) {
    for (const uint64_t seed : {0, 1, 2}) {
      const ScheduleScope order(seed);
      const TempDir late_folder, waiting_folder;
      DeviceRun late(late_folder), waiting(waiting_folder);
      waiting.config.output.save_every_steps = 1;
      late.config.no_cuda_graph = waiting.config.no_cuda_graph = !recorded;
      EXPECT_EQ(late.run().steps, 10);
      EXPECT_EQ(waiting.run().steps, 10);
      EXPECT_EQ(checkpoints_in(waiting_folder).size(), 10u);
      EXPECT_EQ(checkpoints_in(late_folder), (std::vector<int64_t>{5, 10}));
      for (const int64_t step : {5, 10}) EXPECT_EQ(digest_of(late_folder, step), digest_of(waiting_folder, step));
      const auto got = rows_of(late_folder.path(), "train"), want = rows_of(waiting_folder.path(), "train");
      ASSERT_EQ(got.size(), 10u);
      for (const char* field : {"step", "epoch", "loss", "lr", "grad_norm"}) {
        EXPECT_EQ(column(got, field), column(want, field)) << field;
      }
      const auto got_eval = rows_of(late_folder.path(), "eval"), want_eval = rows_of(waiting_folder.path(), "eval");
      ASSERT_EQ(got_eval.size(), 2u);
      for (const char* field : {"step", "val_loss", "val_top1", "ema_val_loss"}) {
        EXPECT_EQ(column(got_eval, field), column(want_eval, field)) << field;
      }
      for (size_t i = 0; i < 10; ++i) {
        const StepReport &a = late.listener.steps.at(i), &b = waiting.listener.steps.at(i);
        EXPECT_EQ(std::tie(a.step, a.total_steps, a.epoch, a.epoch_step),
                  std::tie(b.step, b.total_steps, b.epoch, b.epoch_step));
      }
    }
  }
}

TEST_F(DeviceTrainerTest, ASignalEndsAfterTheStepsThatWereBegun) {
  const TempDir straight_folder;
  DeviceRun straight(straight_folder);
  straight.run();
  for (const int64_t step : {1, 2, 4, 5, 7}) {
    const TempDir folder;
    DeviceRun run(folder);
    run.config.output.save_every_epochs = 0;
    run.listener.signal_at_step = step;
    const RunResult result = run.run();
    EXPECT_EQ(result.stopped_by, SIGTERM);
    EXPECT_GE(result.steps, step);
    EXPECT_LE(result.steps, step + 2);
    EXPECT_EQ(run.listener.steps.size(), static_cast<size_t>(result.steps));
    EXPECT_EQ(rows_of(folder.path(), "train").size(), static_cast<size_t>(result.steps));
    EXPECT_EQ(checkpoints_in(folder).back(), result.steps);
    DeviceRun rest(folder);
    rest.config.output.resume = "auto";
    EXPECT_EQ(rest.run().steps, 10);
    EXPECT_EQ(digest_of(folder, 10), digest_of(straight_folder, 10));
  }
}

TEST_F(DeviceTrainerTest, StepsEndARunWithTheStateOfThatStep) {
  const TempDir waiting_folder;
  DeviceRun waiting(waiting_folder);
  waiting.config.output.save_every_steps = 1;
  waiting.run();
  for (const int64_t steps : {2, 5, 8}) {
    const TempDir folder;
    DeviceRun run(folder);
    run.config.steps = steps;
    EXPECT_EQ(run.run().steps, steps);
    EXPECT_EQ(rows_of(folder.path(), "train").size(), static_cast<size_t>(steps));
    EXPECT_EQ(digest_of(folder, steps), digest_of(waiting_folder, steps));
  }
}

TEST_F(DeviceTrainerTest, H_REQ_02_StopsAtTheFirstLossThatIsNotFinite) {
  for (const int64_t poisoned : {3, 7, 11}) {
    const TempDir folder, whole_folder;
    DeviceRun run(folder), whole(whole_folder);
    run.poisoned = poisoned;
    run.config.output.save_every_epochs = 0;
    const std::string message = message_of<TrainingError>([&] { run.run(); });
    const auto done = static_cast<int64_t>(run.listener.steps.size());
    ASSERT_LT(done, 5);
    for (const std::string& part : {"step " + std::to_string(done + 1) + ":", std::string("loss nan"),
                                    std::string("first in the pictures"), " " + std::to_string(poisoned)}) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
    EXPECT_EQ(rows_of(folder.path(), "train").size(), static_cast<size_t>(done));
    if (done == 0) continue;
    // The last finite state is saved, though later steps had been begun.
    EXPECT_EQ(checkpoints_in(folder), std::vector<int64_t>{done});
    whole.config.steps = done;
    whole.run();
    EXPECT_EQ(digest_of(folder, done), digest_of(whole_folder, done));
  }
}

TEST_F(DeviceTrainerTest, H_REQ_02_SkippingIsLoggedCountedAndBounded) {
  const TempDir late_folder, waiting_folder;
  DeviceRun late(late_folder), waiting(waiting_folder);
  waiting.config.output.save_every_steps = 1;
  for (DeviceRun* run : {&late, &waiting}) {
    run->poisoned = 7;
    run->config.on_nonfinite = "skip";
    const LogCapture log;
    EXPECT_EQ(run->run().steps, 10);
    EXPECT_EQ(log.count(LogLevel::warning, "step skipped"), 2);
    EXPECT_EQ(log.count(LogLevel::warning, "first in the pictures"), 2);
  }
  EXPECT_EQ(digest_of(late_folder, 10), digest_of(waiting_folder, 10));
  EXPECT_EQ(column(rows_of(late_folder.path(), "train"), "step"),
            column(rows_of(waiting_folder.path(), "train"), "step"));
  const TempDir other;
  DeviceRun hopeless(other);
  hopeless.config.on_nonfinite = "skip";
  hopeless.config.epochs = 100;
  hopeless.source.samples = 4;
  hopeless.poisoned = 2;
  hopeless.validation = false;
  EXPECT_THROW(hopeless.run(), TrainingError);
  EXPECT_EQ(hopeless.listener.steps.size(), 49u);
}

/// A source whose pictures cannot be read from some step on.
class FailingSource final : public FakeSource {
 public:
  FailingSource(const FakeSourceOptions& options, int64_t batches) : FakeSource(options), left_(batches) {}
  std::optional<Batch> next() override {
    if (left_-- == 0) throw DataError("no more");
    return FakeSource::next();
  }

 private:
  int64_t left_;
};

TEST_F(DeviceTrainerTest, AnErrorOfTheDataComesBehindTheRowsOfTheStepsBefore) {
  const TempDir folder;
  DeviceRun run(folder);
  FailingSource failing(run.source, 7);  // in the middle of the fourth step
  run.train_on = &failing;
  EXPECT_THROW(run.run(), DataError);
  EXPECT_EQ(column(rows_of(folder.path(), "train"), "step"), (std::vector<double>{1, 2, 3}));
}

/// Tells whether it was asked for bytes when it last began.
class AskedSource final : public FakeSource {
 public:
  using FakeSource::FakeSource;
  void allow_bytes(bool allowed) override { allowed_ = allowed; }
  void start(int64_t epoch, int64_t first_sample) override {
    FakeSource::start(epoch, first_sample);
    asked = allowed_;
  }
  bool asked = false;

 private:
  bool allowed_ = false;
};

TEST_F(DeviceTrainerTest, AcceleratorsAloneAskForBytes) {
  for (const bool on_accelerator : {true, false}) {
    const TempDir folder;
    DeviceRun run(folder);
    run.on_accelerator = on_accelerator;
    AskedSource train(run.source), held_out({.samples = 7, .batch_size = 3, .training = false});
    run.train_on = &train;
    run.held_out = &held_out;
    run.run();
    EXPECT_EQ(train.asked, on_accelerator);
    EXPECT_EQ(held_out.asked, on_accelerator);
  }
}

}  // namespace
}  // namespace engine::testing
