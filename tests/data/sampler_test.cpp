#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"

namespace engine::testing {
namespace {

using data::epoch_order;
using data::Sampler;
using data::SamplerOptions;
using Indices = std::vector<int64_t>;

/// All samples of an epoch from a position on, in order, and the number of steps.
std::pair<Indices, int64_t> walk(Sampler& sampler, int64_t epoch, int64_t first = 0) {
  Indices samples;
  int64_t steps = 0;
  sampler.start(epoch, first);
  while (const auto step = sampler.next()) {
    ++steps;
    for (const Indices& batch : step->micro_batches) samples.insert(samples.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(steps, sampler.steps_from(first));
  return {samples, steps};
}

TEST(Sampler, AnEpochIsAPermutationOfItsOwn) {
  const Indices first = epoch_order(1000, 7, 0), again = epoch_order(1000, 7, 0);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, epoch_order(1000, 7, 1));
  EXPECT_NE(first, epoch_order(1000, 8, 0));
  Indices sorted = first, all(1000);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(first, all);
}

TEST(Sampler, EverySampleComesFirstEquallyOften) {
  constexpr int kSamples = 5, kEpochs = 5000;
  std::vector<int> counts(kSamples);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[static_cast<size_t>(epoch_order(kSamples, 3, epoch)[0])];
  }
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / kSamples, 5 * 29);  // sd of B(5000, 1/5) is 28.3
}

TEST(Sampler, BatchesCoverTheEpochInOrder) {
  Sampler sampler({.samples = 103, .batch_size = 10, .seed = 7});
  const auto [samples, steps] = walk(sampler, 2);
  EXPECT_EQ(samples, epoch_order(103, 7, 2));
  EXPECT_EQ(steps, 11);
}

TEST(Sampler, EvaluationTakesEachOnceInOrder) {
  Indices all(65);
  std::iota(all.begin(), all.end(), 0);
  Sampler sampler({.samples = 65, .batch_size = 64, .training = false});
  EXPECT_EQ(walk(sampler, 0).first, all);
  for (const int world : {2, 3, 8}) {
    Indices together;
    for (int rank = 0; rank < world; ++rank) {
      Sampler part({.samples = 65, .batch_size = 4, .rank = rank, .world = world, .training = false});
      const Indices share = walk(part, 0).first;
      together.insert(together.end(), share.begin(), share.end());
    }
    std::sort(together.begin(), together.end());
    EXPECT_EQ(together, all) << world;
  }
}

TEST(Cases, H_LOAD_01_ASingleLastSampleIsLeftOut) {
  Sampler sampler({.samples = 65, .batch_size = 64});
  const auto [samples, steps] = walk(sampler, 0);
  EXPECT_EQ(samples.size(), 64U);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(sampler.steps_from(64), 0);

  // 128 + 65: the second step's micro-batches share its samples.
  Sampler accumulating({.samples = 193, .batch_size = 64, .accumulate_steps = 2});
  accumulating.start(0, 0);
  EXPECT_EQ(accumulating.next()->global_samples, 128);
  const auto step = accumulating.next();
  ASSERT_EQ(step->micro_batches.size(), 2U);
  EXPECT_EQ(step->micro_batches[0].size(), 33U);
  EXPECT_EQ(step->micro_batches[1].size(), 32U);
  EXPECT_EQ(step->global_samples, 65);
  EXPECT_EQ(step->end, 193);
  EXPECT_FALSE(accumulating.next());

  // Where a batch of one is what was asked for, or all there is, it stays.
  Sampler ones({.samples = 3, .batch_size = 1}), alone({.samples = 1, .batch_size = 64});
  EXPECT_EQ(walk(ones, 0).first.size(), 3U);
  EXPECT_EQ(walk(alone, 0).first.size(), 1U);
}

TEST(Sampler, NoMicroBatchOfOneArises) {
  for (int64_t samples = 2; samples < 60; ++samples) {
    for (const int64_t batch : {2, 3, 5}) {
      for (const int64_t accumulate : {1, 2, 3}) {
        Sampler sampler({.samples = samples, .batch_size = batch, .accumulate_steps = accumulate});
        int64_t taken = 0;
        sampler.start(0, 0);
        while (const auto step = sampler.next()) {
          EXPECT_LE(static_cast<int64_t>(step->micro_batches.size()), accumulate);
          for (const Indices& micro : step->micro_batches) {
            EXPECT_GE(micro.size(), 2U);
            EXPECT_LE(static_cast<int64_t>(micro.size()), std::max<int64_t>(batch, 3));
            taken += static_cast<int64_t>(micro.size());
          }
        }
        EXPECT_EQ(taken, samples - (samples % (batch * accumulate) == 1 ? 1 : 0));
      }
    }
  }
}

TEST(Sampler, AGlobalBatchIsTheSameOnAnyNumberOfProcesses) {
  const auto global_batches = [](int world) {
    std::vector<Indices> batches;
    for (int rank = 0; rank < world; ++rank) {
      Sampler sampler({.samples = 100, .batch_size = 24 / world, .rank = rank, .world = world, .seed = 5});
      sampler.start(3, 0);
      for (size_t s = 0; const auto step = sampler.next(); ++s) {
        batches.resize(std::max(batches.size(), s + 1));
        for (const Indices& batch : step->micro_batches) {
          batches[s].insert(batches[s].end(), batch.begin(), batch.end());
        }
      }
    }
    return batches;
  };
  EXPECT_EQ(global_batches(2), global_batches(1));
  EXPECT_EQ(global_batches(4), global_batches(1));
}

TEST(Sampler, GlobalSamplesAddUpOverProcesses) {
  for (const int64_t samples : {7, 33, 65, 100}) {
    std::vector<int64_t> sums, claimed;
    for (int rank = 0; rank < 3; ++rank) {
      Sampler sampler({.samples = samples, .batch_size = 4, .accumulate_steps = 2, .rank = rank, .world = 3});
      sampler.start(0, 0);
      for (size_t s = 0; const auto step = sampler.next(); ++s) {
        sums.resize(std::max(sums.size(), s + 1));
        claimed.resize(sums.size(), step->global_samples);
        EXPECT_EQ(claimed[s], step->global_samples);
        for (const Indices& batch : step->micro_batches) sums[s] += static_cast<int64_t>(batch.size());
      }
    }
    EXPECT_EQ(sums, claimed) << samples;
  }
}

TEST(Sampler, ResumingWithAnotherBatchSizeGoesOnAtTheSameSample) {
  Sampler before({.samples = 100, .batch_size = 16, .seed = 9});
  before.start(4, 0);
  before.next();
  const int64_t position = before.next()->end;
  Sampler after({.samples = 100, .batch_size = 10, .seed = 9});
  const Indices order = epoch_order(100, 9, 4);
  EXPECT_EQ(walk(after, 4, position).first, Indices(order.begin() + position, order.end()));
}

TEST(Sampler, RefusesSizesBelowOne) {
  EXPECT_THROW(Sampler({.samples = 0}), ConfigError);
  EXPECT_THROW(Sampler({.samples = 4, .batch_size = 0}), ConfigError);
  EXPECT_THROW(Sampler({.samples = 4, .accumulate_steps = 0}), ConfigError);
}

}  // namespace
}  // namespace engine::testing
