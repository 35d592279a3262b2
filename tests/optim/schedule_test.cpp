#include "engine/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/errors.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

ScheduleConfig config_of(const std::string& name) {
  ScheduleConfig config;
  config.lr_scheduler = name;
  return config;
}

void expect_rates(const std::vector<double>& got, const std::vector<double>& want) {
  ExpectClose(got, want, tolerance<double>(1, OpClass::transcendental), "rates");
}

/// The rate at the first step of each epoch.
std::vector<double> by_epoch(const Schedule& schedule, int64_t steps_per_epoch, int64_t epochs) {
  std::vector<double> rates;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) rates.push_back(schedule.at(epoch * steps_per_epoch));
  return rates;
}

TEST(Cases, H_NUM_09_CosineByEpoch) {
  for (const int64_t steps_per_epoch : {1, 7}) {
    const Schedule schedule(config_of("cosine"), 0.1, steps_per_epoch, 10);
    // The case gives seven digits.
    ExpectClose(by_epoch(schedule, steps_per_epoch, 10),
                std::vector<double>{0.1, 0.0975528, 0.0904508, 0.0793893, 0.0654508, 0.05, 0.0345492, 0.0206107,
                                    0.0095492, 0.0024472},
                tolerance<float>(1, OpClass::elementwise), "rates", 1);
  }
}

TEST(Schedule, Constant) {
  expect_rates(by_epoch(Schedule(config_of("constant"), 0.3, 4, 5), 4, 5), std::vector<double>(5, 0.3));
}

TEST(Schedule, StepFallsEverySoManyEpochsAndNotWithin) {
  ScheduleConfig config = config_of("step");
  config.lr_step_size = 2;
  config.lr_gamma = 0.5;
  const Schedule schedule(config, 0.8, 3, 6);
  expect_rates(by_epoch(schedule, 3, 6), {0.8, 0.8, 0.4, 0.4, 0.2, 0.2});
  EXPECT_EQ(schedule.at(5), schedule.at(0));
  EXPECT_LT(schedule.at(6), schedule.at(5));
}

TEST(Schedule, MultistepFallsAtItsMilestones) {
  ScheduleConfig config = config_of("multistep");
  config.lr_milestones = {1, 3};
  expect_rates(by_epoch(Schedule(config, 1, 3, 5), 3, 5), {1, 0.1, 0.1, 0.01, 0.01});
}

TEST(Schedule, CosineMovesWithinAnEpochDownToItsFloor) {
  ScheduleConfig config = config_of("cosine");
  config.lr_min = 0.02;
  const Schedule schedule(config, 0.1, 10, 2);
  double before = 1;
  for (int64_t step = 0; step < 20; ++step) {
    const double rate = schedule.at(step);
    EXPECT_LT(rate, before);
    EXPECT_GT(rate, 0.02);
    before = rate;
    expect_rates({rate}, {0.02 + 0.08 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 20)) / 2});
  }
  expect_rates({schedule.at(20), schedule.at(1000)}, {0.02, 0.02});
}

TEST(Schedule, WarmupByEpochsIsTorchvisions) {
  // LinearLR(start_factor=0.01, total_iters=4) for 4 epochs, then each main schedule from its beginning.
  ScheduleConfig config = config_of("step");
  config.lr_warmup_epochs = 4;
  config.lr_step_size = 2;
  const std::vector<double> warmup = {0.01, 0.01 + 0.99 / 4, 0.01 + 0.99 / 2, 0.01 + 0.99 * 3 / 4};
  std::vector<double> expected = warmup;
  expected.insert(expected.end(), {1, 1, 0.1, 0.1, 0.01});
  expect_rates(by_epoch(Schedule(config, 1, 5, 9), 5, 9), expected);
  config.lr_scheduler = "cosine";
  expected = warmup;
  for (int i = 0; i < 5; ++i) expected.push_back((1 + std::cos(std::numbers::pi * i / 5)) / 2);
  expect_rates(by_epoch(Schedule(config, 1, 5, 9), 5, 9), expected);
}

TEST(Schedule, WarmupBySteps) {
  ScheduleConfig config = config_of("cosine");
  config.lr_warmup_steps = 5;
  config.lr_warmup_decay = 0.2;
  const Schedule schedule(config, 1, 10, 2);
  std::vector<double> rates;
  for (int64_t step = 0; step < 6; ++step) rates.push_back(schedule.at(step));
  expect_rates(rates, {0.2, 0.36, 0.52, 0.68, 0.84, 1});
  expect_rates({schedule.at(5 + 3)}, {(1 + std::cos(std::numbers::pi * 3 / 15)) / 2});
}

TEST(Schedule, IsAFunctionOfTheStepAlone) {
  // Resuming makes a new object: it must go on with the same rates, in warm-up too.
  for (const std::string& name : scheduler_names()) {
    ScheduleConfig config = config_of(name);
    config.lr_warmup_steps = 5;
    config.lr_step_size = 1;
    config.lr_milestones = {1, 2};
    const Schedule whole(config, 0.1, 6, 4);
    for (int64_t step = 0; step < 24; ++step) EXPECT_EQ(Schedule(config, 0.1, 6, 4).at(step), whole.at(step)) << name;
  }
}

TEST(Schedule, WarmupLongerThanTheRunIsHarmless) {
  ScheduleConfig config = config_of("cosine");
  config.lr_warmup_epochs = 10;
  const Schedule schedule(config, 1, 2, 3);
  for (int64_t step = 0; step < 30; ++step) EXPECT_TRUE(std::isfinite(schedule.at(step)));
}

TEST(Schedule, NamesAreListed) {
  EXPECT_EQ(scheduler_names(), (std::vector<std::string>{"constant", "step", "multistep", "cosine"}));
  ExpectError<ConfigError>([] { Schedule(config_of("cos\nine"), 0.1, 1, 1); },
                           {"--lr-scheduler", "cos\\nine", "cosine"});
}

}  // namespace
}  // namespace engine::testing
