// Dynamic loss scaling in steps and in whole runs, on the CPU and on the accelerator.

#include <gtest/gtest.h>

#include <limits>

#include "engine/core/error.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/train/device_bench.h"
#include "tests/train/trainer_fixture.h"

namespace engine::testing {
namespace {

constexpr int64_t kPoisoned = 17;

TrainStepOptions dynamic(double scale, bool recorded = true) {
  return {
      .recorded = recorded, .loss_scale = scale, .dynamic_loss_scale = true, .most_skips = kernels::kMostSkipsInARow};
}

/// Six steps of which the third and fourth have a picture that is not finite, taken as late as allowed.
std::vector<StepOutcome> steps_with_overflow(Bench& bench) {
  FakeSource source;
  source.poison(kPoisoned);
  std::vector<StepOutcome> outcomes;
  for (int64_t step = 0; step < 6; ++step) {
    const bool bad = step == 2 || step == 3;
    add_batches(bench, source, {{step, step + 1}, {step + 2, bad ? kPoisoned : step + 3}});
    bench.step.end(0.05);
    while (auto outcome = bench.step.take(Lateness::allowed)) outcomes.push_back(*outcome);
  }
  while (auto outcome = bench.step.take(Lateness::none)) outcomes.push_back(*outcome);
  return outcomes;
}

void expect_scaled(Device device, bool recorded) {
  Bench bench(make_tiny_model(), device, {}, dynamic(1024, recorded), DType::f16);
  const auto outcomes = steps_with_overflow(bench);
  ASSERT_EQ(outcomes.size(), 6u);
  const std::vector<bool> applied = {true, true, false, false, true, true};
  const std::vector<float> scales = {1024, 1024, 512, 256, 256, 256};
  const std::vector<int32_t> skipped = {0, 0, 1, 2, 2, 2}, in_a_row = {0, 0, 1, 2, 0, 0};
  for (size_t i = 0; i < outcomes.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(outcomes[i].applied, applied[i]);
    EXPECT_EQ(outcomes[i].scaling.scale, scales[i]);
    EXPECT_EQ(outcomes[i].scaling.skipped, skipped[i]);
    EXPECT_EQ(outcomes[i].scaling.skipped_in_a_row, in_a_row[i]);
  }
  // Skipped steps advance neither the optimizer's count nor batch norm's.
  EXPECT_EQ(bench.optimizer->applied_steps(), 4);
  for (const NamedTensor& counter : bench.flat.counters()) EXPECT_EQ(counter.tensor.item(), 8) << counter.name;
}

TEST(LossScaling, SkipsHalveTheScaleOnTheCpu) { expect_scaled(Device::cpu(), false); }

TEST(LossScaling, SkippedStepsLeaveNothingBehindOnTheCpu) {
  FakeSource source;
  source.poison(kPoisoned);
  Bench bench(make_tiny_model(), Device::cpu(), {}, dynamic(1024), DType::f16);
  run_step(bench, source, {{0, 1}}, 0.05);
  const auto before = bench.state();
  EXPECT_FALSE(run_step(bench, source, {{2, 3}, {4, kPoisoned}}, 0.05).applied);
  expect_equal(bench.state(), before);
}

class LossScalingOnDevice : public WatchedAcceleratorTest {};

TEST_F(LossScalingOnDevice, SkipsHalveTheScaleWithoutStoppingTheDevice) {
  for (const bool recorded : {true, false}) {
    SCOPED_TRACE(recorded ? "recorded" : "not recorded");
    expect_scaled(Device::accelerator(), recorded);
  }
}

TEST_F(LossScalingOnDevice, SkippedStepsLeaveNothingBehind) {
  FakeSource source;
  source.poison(kPoisoned);
  Bench bench(make_tiny_model(), Device::accelerator(), {}, dynamic(1024), DType::f16);
  run_step(bench, source, {{0, 1}}, 0.05);
  const auto before = bench.state();
  EXPECT_FALSE(run_step(bench, source, {{2, 3}, {4, kPoisoned}}, 0.05).applied);
  expect_equal(bench.state(), before);
}

/// A run in FP16 with a picture that is not finite in each epoch.
void configure(TinyRun& run, bool on_accelerator) {
  run.config.precision = "fp16";
  run.on_accelerator = on_accelerator;
  run.poisoned = kPoisoned;
}

void expect_run(bool on_accelerator) {
  const TempDir folder;
  TinyRun run(folder.str());
  configure(run, on_accelerator);
  run.run();
  const auto rows = rows_of(folder.path(), "train");
  ASSERT_EQ(rows.size(), 10u);  // two epochs of five steps
  EXPECT_EQ(column(rows, "skipped_steps").back(), 2);
  EXPECT_EQ(column(rows, "loss_scale").front(), rows.front().at("skipped_steps") == 0 ? 65536 : 32768);
  EXPECT_EQ(column(rows, "loss_scale").back(), 16384);
}

TEST(LossScaling, RunsCountTheirSkippedSteps) { expect_run(false); }
TEST_F(LossScalingOnDevice, RunsCountTheirSkippedSteps) { expect_run(true); }

TEST(LossScaling, MetricsSayNothingInFp32) {
  const TempDir folder;
  TinyRun run(folder.str());
  run.run();
  for (const auto& row : rows_of(folder.path(), "train")) {
    EXPECT_FALSE(row.contains("loss_scale") || row.contains("skipped_steps"));
  }
}

/// Stopped in the middle and resumed: the scale and its counts go on.
void expect_resumed(bool on_accelerator) {
  const TempDir whole, parts;
  TinyRun unbroken(whole.str());
  configure(unbroken, on_accelerator);
  unbroken.run();
  TinyRun first(parts.str());
  configure(first, on_accelerator);
  first.config.steps = 6;
  first.run();
  TinyRun second(parts.str());
  configure(second, on_accelerator);
  second.config.output.resume = "auto";
  second.run();
  EXPECT_EQ(column(rows_of(parts.path(), "train"), "loss_scale"), column(rows_of(whole.path(), "train"), "loss_scale"));
  EXPECT_EQ(bytes_of(parts.path() / checkpoint_name(10)), bytes_of(whole.path() / checkpoint_name(10)));
}

TEST(LossScaling, ResumesWhereItStood) { expect_resumed(false); }
TEST_F(LossScalingOnDevice, ResumesWhereItStood) { expect_resumed(true); }

TEST(Cases, H_NUM_03_TooManySkippedStepsEndTheRun) {
  for (const bool on_accelerator : {false, true}) {
    SCOPED_TRACE(on_accelerator ? "accelerator" : "cpu");
    const TempDir folder;
    TinyRun run(folder.str());
    run.config.precision = "fp16";
    run.on_accelerator = on_accelerator;
    run.source.samples = 400;  // more steps an epoch than may be skipped
    run.prepare_model = [](Module& model) {
      model.parameters()[0].tensor.fill(std::numeric_limits<float>::infinity());
    };
    ExpectError<TrainingError>([&] { run.run(); }, {"too many skipped steps", "50 steps in a row", "loss scale of 1"});
  }
}

TEST(LossScaling, AFixedScaleStays) {
  const TempDir folder;
  TinyRun run(folder.str());
  configure(run, false);
  run.config.loss_scale = "128";
  run.run();
  for (const double scale : column(rows_of(folder.path(), "train"), "loss_scale")) EXPECT_EQ(scale, 128);
}

}  // namespace
}  // namespace engine::testing
