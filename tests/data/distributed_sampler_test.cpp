// The sampler's division among processes, on the handed cases.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/sampler.h"

namespace engine::testing {
namespace {

using data::Sampler;
using data::SamplerOptions;
using Indices = std::vector<int64_t>;

struct Share {
  Indices samples;
  int64_t steps = 0;
};

Share share_of_rank(SamplerOptions options, int rank, int64_t epoch, int64_t first = 0) {
  options.rank = rank;
  Sampler sampler(options);
  sampler.start(epoch, first);
  Share share;
  while (const auto step = sampler.next()) {
    ++share.steps;
    for (const Indices& batch : step->micro_batches) {
      share.samples.insert(share.samples.end(), batch.begin(), batch.end());
    }
  }
  return share;
}

Indices sorted_union(const std::vector<Share>& shares) {
  Indices all;
  for (const Share& share : shares) all.insert(all.end(), share.samples.begin(), share.samples.end());
  std::sort(all.begin(), all.end());
  return all;
}

Indices first_numbers(int64_t count) {
  Indices numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

TEST(Cases, H_DIST_01_EvaluationCountsEachSampleOnceOnAnyNumberOfRanks) {
  for (const int world : {1, 2, 3, 4, 12}) {
    for (const int64_t batch : {1, 3, 64}) {
      std::vector<Share> shares;
      int64_t right = 0, seen = 0;
      for (int rank = 0; rank < world; ++rank) {
        shares.push_back(
            share_of_rank({.samples = 10, .batch_size = batch, .world = world, .training = false}, rank, 0));
        for (const int64_t sample : shares.back().samples) right += sample != 0;
        seen += static_cast<int64_t>(shares.back().samples.size());
      }
      EXPECT_EQ(sorted_union(shares), first_numbers(10)) << world << " ranks, batch " << batch;
      EXPECT_EQ(seen, 10);
      EXPECT_EQ(right, 9);
    }
  }
}

TEST(Cases, H_DIST_02_AllRanksMakeTheSameNumberOfSteps) {
  for (const int64_t samples : {1, 2, 5, 12, 13}) {
    for (const int64_t batch : {1, 2, 5}) {
      for (const bool training : {true, false}) {
        std::vector<Share> shares;
        for (int rank = 0; rank < 2; ++rank) {
          shares.push_back(share_of_rank(
              {.samples = samples, .batch_size = batch, .world = 2, .training = training, .seed = 3}, rank, 1));
        }
        EXPECT_EQ(shares[0].steps, shares[1].steps) << samples << " samples, batch " << batch;
        if (!training) {
          EXPECT_EQ(sorted_union(shares), first_numbers(samples));
        }
      }
    }
  }
}

TEST(Cases, H_DIST_03_EachEpochHasAnotherOrderAndRanksAreDisjoint) {
  const SamplerOptions options{.samples = 22, .batch_size = 2, .world = 2, .seed = 5};
  std::vector<std::vector<Share>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back({share_of_rank(options, 0, epoch), share_of_rank(options, 1, epoch)});
    EXPECT_EQ(sorted_union(epochs.back()), first_numbers(22)) << "a sample is missing or there twice";
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(share_of_rank(options, rank, epoch).samples, epochs.back()[static_cast<size_t>(rank)].samples);
    }
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_NE(epochs[0][rank].samples, epochs[1][rank].samples);
    EXPECT_NE(epochs[1][rank].samples, epochs[2][rank].samples);
    EXPECT_NE(epochs[0][rank].samples, epochs[2][rank].samples);
  }
}

}  // namespace
}  // namespace engine::testing
