// Outcomes that the host takes some steps late: what it sees is what it would have seen at once.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/emulation.h"
#include "engine/core/stream.h"
#include "tests/support/accelerator.h"
#include "tests/train/device_bench.h"

namespace engine::testing {
namespace {

class LateOutcomeTest : public AcceleratorTest {};
class WatchedLateOutcomeTest : public WatchedAcceleratorTest {};

Bench device_bench(bool recorded) {
  return Bench(make_tiny_model(), Device::accelerator(), {}, {.clip_grad_norm = 1, .recorded = recorded});
}

/// Of the emulated device; 0 on a GPU.
uint64_t work_done() {
  if constexpr (kernels::kBuiltWithCuda) {
    return 0;
  } else {
    return emulated_work();
  }
}

TEST_F(LateOutcomeTest, StepsAreEnqueuedWhileNothingOfThemHasRun) {
  if (kernels::kBuiltWithCuda) GTEST_SKIP() << "only the emulated device tells what it has run";
  const FakeSource source;
  const MicroBatches batches = {{0, 1, 2, 3}};
  for (const bool recorded : {true, false}) {
    Bench bench = device_bench(recorded);
    // What happens once: plans, tables, the recording.
    for (int step = 0; step < 3; ++step) run_step(bench, source, batches, 0.05);
    const uint64_t before = work_done();
    constexpr int kLate = 2;
    for (int step = 0; step < kLate; ++step) {
      add_batches(bench, source, batches);
      bench.step.end(0.05);
      EXPECT_FALSE(bench.step.take(Lateness::allowed).has_value());
    }
    add_batches(bench, source, batches);
    bench.step.end(0.05);
    EXPECT_EQ(work_done(), before) << (recorded ? "recorded" : "unrecorded");
    EXPECT_TRUE(bench.step.take(Lateness::allowed).has_value());
    const uint64_t one = work_done() - before;
    EXPECT_GT(one, 0u);
    EXPECT_FALSE(bench.step.take(Lateness::allowed).has_value());
    EXPECT_EQ(work_done() - before, one);
    for (int step = 0; step < kLate; ++step) EXPECT_TRUE(bench.step.take(Lateness::none).has_value());
    EXPECT_FALSE(bench.step.take(Lateness::none).has_value());
    EXPECT_EQ(work_done() - before, 3 * one) << "no step ran twice";
  }
}

/// What is seen of a step.
struct Seen {
  StepOutcome outcome;
  std::vector<std::vector<float>> state;  // behind it, where that is exact
};

/// A training in which pictures are poisoned at times, in micro-batches of all kinds.
struct Plan {
  MicroBatches batches;
  int64_t poisoned = -1;
};

const std::vector<Plan>& plans() {
  static const std::vector<Plan> all = {
      {{{0, 1}, {2, 3}}},
      {{{4, 5}, {6, 7}}},
      {{{8, 9}, {10, 11}}},
      {{{1, 3}, {5, 7}}, 1},  // the first micro-batch is the one to look at
      {{{0, 1}, {2, 3}}},
      {MicroBatches(1)},  // all of its pictures were skipped
      {{{2, 4}, {6, 8}}, 8},
      {{{2, 4}, {6, 8}}, 6},  // two in a row
      {{{9, 11}, {13, 15}, {}}},
      {{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}},       // more than are kept
      {{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}}, 11},  // the sixth of them
      {{{0, 2}, {4, 6}, {8, 10}, {12, 14}, {1, 3}, {5, 7}}},      // begun behind that one
      {{{0, 1}, {2, 3}}, 3},
  };
  return all;
}

void add_plan(Bench& bench, const Plan& plan) {
  FakeSource source;
  source.poison(plan.poisoned);
  add_batches(bench, source, plan.batches);
}

double rate_of(size_t step) { return 0.01 * static_cast<double>(step + 1); }

void expect_same(const StepOutcome& got, const StepOutcome& want, size_t step) {
  SCOPED_TRACE(step);
  EXPECT_EQ(got.applied, want.applied);
  EXPECT_EQ(got.images, want.images);
  EXPECT_EQ(got.samples, want.samples);
  EXPECT_EQ(got.suspect.samples, want.suspect.samples);
  if (!want.applied) return;
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.grad_norm, want.grad_norm);
}

std::vector<Seen> taken_at_once(bool recorded) {
  Bench bench = device_bench(recorded);
  std::vector<Seen> seen;
  for (const Plan& plan : plans()) {
    add_plan(bench, plan);
    const double rate = rate_of(seen.size());
    seen.push_back({bench.step.finish(rate), {}});
    seen.back().state = bench.state();
  }
  return seen;
}

TEST_F(LateOutcomeTest, AStepThatIsNotAppliedHoldsUpThoseBehindIt) {
  const std::vector<Seen> truth = taken_at_once(false);
  ASSERT_EQ(truth.size(), plans().size());
  EXPECT_EQ(truth[3].outcome.suspect.samples, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(truth[6].outcome.suspect.samples, (std::vector<int64_t>{6, 8}));
  for (size_t step = 0; step < plans().size(); ++step) {
    const bool good = plans()[step].poisoned < 0 && !plans()[step].batches.front().empty();
    EXPECT_EQ(truth[step].outcome.applied, good) << step;
  }
  for (const bool recorded : {false, true}) {
    for (const uint64_t seed : {0, 1, 2}) {
      SCOPED_TRACE(std::string(recorded ? "recorded" : "unrecorded") + ", order " + std::to_string(seed));
      const ScheduleScope order(seed);
      Bench bench = device_bench(recorded);
      size_t taken = 0;
      const auto take = [&](Lateness lateness) {
        while (const auto outcome = bench.step.take(lateness)) {
          expect_same(*outcome, truth[taken].outcome, taken);
          if (!outcome->applied && outcome->images > 0) expect_equal(bench.state(), truth[taken].state);
          ++taken;
        }
      };
      for (size_t step = 0; step < plans().size(); ++step) {
        add_plan(bench, plans()[step]);
        bench.step.end(rate_of(step));
        take(Lateness::allowed);
        EXPECT_GE(taken + 3, step + 1) << "two, and one without pictures";
      }
      take(Lateness::none);
      EXPECT_EQ(taken, plans().size());
      expect_equal(bench.state(), truth.back().state);
    }
  }
}

// Nobody takes an outcome; the host waits when there is no room for more.
TEST_F(LateOutcomeTest, OutcomesThatNobodyTakesAreKept) {
  const std::vector<Seen> truth = taken_at_once(false);
  Bench bench = device_bench(true);
  for (size_t step = 0; step < plans().size(); ++step) {
    add_plan(bench, plans()[step]);
    bench.step.end(rate_of(step));
  }
  for (size_t step = 0; step < plans().size(); ++step) {
    const auto outcome = bench.step.take(Lateness::none);
    ASSERT_TRUE(outcome.has_value());
    expect_same(*outcome, truth[step].outcome, step);
  }
  EXPECT_FALSE(bench.step.take(Lateness::none).has_value());
  expect_equal(bench.state(), truth.back().state);
}

TEST_F(LateOutcomeTest, PicturesAreForgottenWithTheirStep) {
  const FakeSource source;
  Bench bench = device_bench(true);
  run_step(bench, source, {{0, 1}}, 0.05);
  run_step(bench, source, {{0, 1}}, 0.05);
  const int64_t before = memory_stats().live_total;
  for (int step = 0; step < 6; ++step) {
    add_batches(bench, source, {{0, 1}});
    bench.step.end(0.05);
    bench.step.take(Lateness::allowed);
  }
  EXPECT_GT(memory_stats().live_total, before);
  while (bench.step.take(Lateness::none)) continue;
  EXPECT_EQ(memory_stats().live_total, before);
}

/// The host sends rates far ahead of the device; each step has its own, also those that are done again.
void expect_rates_of_their_own() {
  FakeSource source;
  std::vector<std::vector<std::vector<float>>> states;
  for (const Lateness lateness : {Lateness::none, Lateness::allowed}) {
    Bench bench = device_bench(true);
    for (int step = 0; step < 8; ++step) {
      source.poison(step == 3 ? 3 : -1);
      add_batches(bench, source, {{step, step + 1}});
      bench.step.end(step % 2 == 0 ? 0.1 : 1e-4);
      bench.step.take(lateness);
    }
    while (bench.step.take(Lateness::none)) continue;
    states.push_back(bench.state());
  }
  expect_equal(states[1], states[0]);
}

TEST_F(LateOutcomeTest, EachStepHasItsOwnRate) {
  for (const uint64_t seed : {0, 4, 5}) {
    SCOPED_TRACE(seed);
    const ScheduleScope order(seed);
    expect_rates_of_their_own();
  }
}

// Among what is watched: nothing is written to pinned memory that a copy still reads.
TEST_F(WatchedLateOutcomeTest, EachStepHasItsOwnRate) { expect_rates_of_their_own(); }

}  // namespace
}  // namespace engine::testing
