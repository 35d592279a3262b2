// Runs that are interrupted and go on.

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"
#include "tests/train/trainer_fixture.h"

namespace engine::testing {
namespace {

/// 18 samples in steps of 4: five a epoch, the last of two samples; ten in all.
constexpr int64_t kSteps = 10;

struct Finished {
  std::string checkpoint;  // the last one, byte for byte
  std::vector<nlohmann::json> train, eval;
};

/// Rows without what a clock or the allocator decides.
std::vector<nlohmann::json> repeatable(std::vector<nlohmann::json> rows) {
  for (auto& row : rows) {
    for (const char* field : {"images_per_second", "data_wait_fraction", "peak_memory_bytes"}) row.erase(field);
  }
  return rows;
}

Finished finished(const TempDir& folder) {
  return {bytes_of(folder.path() / checkpoint_name(kSteps)), repeatable(rows_of(folder.path(), "train")),
          repeatable(rows_of(folder.path(), "eval"))};
}

using Configure = std::function<void(TinyRun&)>;

Finished uninterrupted(const Configure& configure) {
  const TempDir folder;
  TinyRun run(folder.str());
  configure(run);
  const RunResult result = run.run();
  EXPECT_EQ(result.steps, kSteps);
  EXPECT_EQ(result.epochs, 2);
  return finished(folder);
}

/// Stopped after `step` and taken up again by a new process.
Finished interrupted(const Configure& configure, int64_t step, bool by_signal) {
  const TempDir folder;
  TinyRun first(folder.str());
  configure(first);
  if (by_signal) {
    first.listener.signal_at_step = step;
  } else {
    first.config.steps = step;
  }
  const RunResult stopped = first.run();
  EXPECT_EQ(stopped.steps, step);
  EXPECT_EQ(stopped.stopped_by, by_signal ? SIGTERM : 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / checkpoint_name(step)));
  TinyRun second(folder.str());
  configure(second);
  second.config.output.resume = "auto";
  const RunResult result = second.run();
  EXPECT_EQ(result.steps, kSteps);
  EXPECT_EQ(result.epochs, 2);
  EXPECT_EQ(static_cast<int64_t>(second.listener.steps.size()), kSteps - step);
  return finished(folder);
}

void expect_same(const Finished& got, const Finished& want) {
  ASSERT_FALSE(want.checkpoint.empty());
  EXPECT_TRUE(got.checkpoint == want.checkpoint) << "the last checkpoints differ";
  EXPECT_EQ(got.train, want.train);
  EXPECT_EQ(got.eval, want.eval);
}

TEST(Resume, IsBitEqualAtEveryStep) {
  const Configure configure = [](TinyRun& run) { run.config.output.save_every_epochs = 0; };
  const Finished whole = uninterrupted(configure);
  ASSERT_EQ(whole.train.size(), 10u);
  ASSERT_EQ(whole.eval.size(), 2u);
  for (int64_t step = 1; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    expect_same(interrupted(configure, step, false), whole);
    expect_same(interrupted(configure, step, true), whole);
  }
}

TEST(Resume, IsBitEqualForEveryOptimizer) {
  for (const std::string& opt : optimizer_names()) {
    SCOPED_TRACE(opt);
    const Configure configure = [&](TinyRun& run) {
      run.config.optimizer.opt = opt;
      run.config.optimizer.lr = opt.starts_with("adam") ? 0.001 : 0.05;
      run.config.optimizer.clip_grad_norm = 0.5;
      run.config.label_smoothing = 0.1;
      run.config.ema_decay = opt == "adam" ? 0 : 0.9;
    };
    const Finished whole = uninterrupted(configure);
    for (const int64_t step : {3, 5, 8}) expect_same(interrupted(configure, step, false), whole);
  }
}

TEST(Resume, IsBitEqualAfterASkippedStep) {
  const Configure configure = [](TinyRun& run) {
    run.config.on_nonfinite = "skip";
    run.poisoned = 7;  // once an epoch
  };
  const Finished whole = uninterrupted(configure);
  for (int64_t step = 1; step < kSteps; step += 2) {
    SCOPED_TRACE(step);
    expect_same(interrupted(configure, step, false), whole);
  }
}

TEST(Resume, AKilledRunGoesOnFromItsLastCheckpoint) {
  // Killed after step 7: the files of 2, 4, 6 are there, and rows up to 7.
  const Configure configure = [](TinyRun& run) {
    run.config.output.save_every_steps = 2;
    run.config.output.save_every_epochs = 0;
  };
  const Finished whole = uninterrupted(configure);
  const TempDir folder;
  TinyRun first(folder.str());
  configure(first);
  first.config.steps = 7;
  first.run();
  std::filesystem::remove(folder.path() / checkpoint_name(7));
  TinyRun second(folder.str());
  configure(second);
  second.config.output.resume = "auto";
  second.run();
  ASSERT_EQ(second.listener.steps.size(), 4u);
  const Finished got = finished(folder);
  EXPECT_TRUE(got.checkpoint == whole.checkpoint);
  // The row of step 7 is there twice, with the same values.
  ASSERT_EQ(got.train.size(), 11u);
  EXPECT_EQ(got.train[6], got.train[7]);
}

TEST(Resume, PassesOverADamagedNewestFile) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.config.steps = 7;
  first.config.output.save_every_steps = 3;
  first.run();
  std::filesystem::resize_file(folder.path() / checkpoint_name(7), 500);
  TinyRun second(folder.str());
  second.config.output.resume = "auto";
  const LogCapture log;
  EXPECT_EQ(second.run().steps, kSteps);
  EXPECT_EQ(second.listener.steps.front().step, 7);
  EXPECT_EQ(log.count(LogLevel::warning, checkpoint_name(7)), 1);
}

TEST(Resume, ADamagedFileByNameIsAnError) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.config.steps = 3;
  first.run();
  std::filesystem::resize_file(folder.path() / checkpoint_name(3), 500);
  TinyRun second(folder.str());
  second.config.output.resume = (folder.path() / checkpoint_name(3)).string();
  ExpectError<CheckpointError>([&] { second.run(); }, {checkpoint_name(3)});
}

TEST(Resume, AutoWithoutACheckpointBeginsAnew) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.config.output.resume = "auto";
  EXPECT_EQ(run.run().steps, kSteps);
  EXPECT_EQ(run.listener.steps.front().step, 1);
}

TEST(Resume, RefusesAnotherRun) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.config.steps = 3;
  first.run();
  const auto before = bytes_of(folder.path() / "metrics.jsonl");
  TinyRun other(folder.str());
  other.config.output.resume = "auto";
  other.values[0].second = "0.2";
  ExpectError<ConfigError>([&] { other.run(); }, {"--lr", "got 0.2", "expected 0.05"});
  TinyRun longer(folder.str());
  longer.config.output.resume = "auto";
  longer.values[1].second = "3";
  ExpectError<ConfigError>([&] { longer.run(); }, {"--epochs", "got 3", "expected 2"});
  TinyRun again(folder.str());
  ExpectError<ConfigError>([&] { again.run(); }, {"--output-dir", folder.str()});
  EXPECT_EQ(bytes_of(folder.path() / "metrics.jsonl"), before);
}

TEST(Resume, AnotherBatchSizeGoesOnAtTheSameSample) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.config.steps = 2;  // eight of 18 samples
  first.run();
  TinyRun second(folder.str());
  second.config.output.resume = "auto";
  second.config.batch_size = 5;
  second.config.accumulate_steps = 1;
  const RunResult result = second.run();
  // The ten samples left make two steps; a whole epoch has four.
  EXPECT_EQ(result.steps, 2 + 2 + 4);
  EXPECT_EQ(result.epochs, 2);
  ASSERT_EQ(second.listener.evals.size(), 2u);
  EXPECT_EQ(second.listener.evals[0].step, 4);
}

TEST(Resume, TheBestValueSurvives) {
  const TempDir folder;
  TinyRun first(folder.str());
  first.config.steps = 5;
  first.run();
  const auto best = [&] {
    return nlohmann::json::parse(open_checkpoint(folder.path() / "last.safetensors").metadata().at("best"));
  };
  ASSERT_TRUE(best().contains("val_top1"));
  const double top1 = best()["val_top1"].get<double>();
  EXPECT_EQ(best()["step"], 5);
  TinyRun second(folder.str());
  second.config.output.resume = "auto";
  second.run();
  const double later = second.listener.evals.at(0).val_top1;
  EXPECT_EQ(best()["val_top1"], std::max(top1, later));
  EXPECT_EQ(best()["step"], later > top1 ? 10 : 5);
}

TEST(Resume, AFinishedRunIsDoneAtOnce) {
  const TempDir folder;
  TinyRun(folder.str()).run();
  const std::string before = bytes_of(folder.path() / checkpoint_name(kSteps));
  TinyRun again(folder.str());
  again.config.output.resume = "auto";
  const RunResult result = again.run();
  EXPECT_EQ(result.steps, kSteps);
  EXPECT_EQ(result.epochs, 2);
  EXPECT_TRUE(again.listener.steps.empty());
  EXPECT_TRUE(std::isfinite(result.val_top1));
  EXPECT_TRUE(bytes_of(folder.path() / checkpoint_name(kSteps)) == before);
}

TEST(Cases, H_NUM_09_RatesOfAResumedRun) {
  const std::vector<double> wanted = {0.1,  0.0975528, 0.0904508, 0.0793893, 0.0654508,
                                      0.05, 0.0345492, 0.0206107, 0.0095492, 0.0024472};
  const auto configure = [](TinyRun& run) {
    run.config.epochs = 10;
    run.config.optimizer.lr = 0.1;
    run.config.schedule.lr_warmup_steps = 0;
    run.source.samples = 4;  // one step an epoch
    run.validation = false;
  };
  for (int64_t stop = 0; stop < 4; ++stop) {
    const TempDir folder;
    TinyRun first(folder.str());
    configure(first);
    first.config.steps = stop + 1;
    first.run();
    TinyRun second(folder.str());
    configure(second);
    second.config.output.resume = "auto";
    second.run();
    ExpectClose(column(rows_of(folder.path(), "train"), "lr"), wanted, tolerance<float>(1, OpClass::elementwise),
                "rates", 1);
  }
}

TEST(Cases, H_NUM_09_WarmupGoesOnAfterAStopAndASkippedStep) {
  const auto configure = [](TinyRun& run) {
    run.config.schedule.lr_warmup_steps = 5;
    run.config.on_nonfinite = "skip";
    run.poisoned = 7;
  };
  const TempDir whole_folder;
  TinyRun whole(whole_folder.str());
  configure(whole);
  whole.run();
  const auto rates = column(rows_of(whole_folder.path(), "train"), "lr");
  ASSERT_EQ(rates.size(), 10u);
  for (size_t i = 1; i <= 5; ++i) EXPECT_GT(rates[i], rates[i - 1]);
  const TempDir folder;
  for (const int64_t steps : {2, 4, 7, 0}) {
    TinyRun part(folder.str());
    configure(part);
    part.config.steps = steps;
    part.config.output.resume = steps == 2 ? "" : "auto";
    part.run();
  }
  EXPECT_EQ(column(rows_of(folder.path(), "train"), "lr"), rates);
}

}  // namespace
}  // namespace engine::testing
