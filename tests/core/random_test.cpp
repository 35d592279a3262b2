#include "engine/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace engine::testing {
namespace {

// Statistics of n draws may lie so many standard deviations off; the draws are the same in every run.
constexpr double kDeviations = 5;

// Vectors of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  using Block = kernels::Philox::Block;
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(kernels::Philox::block(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(kernels::Philox::block(ones, ones, ones), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(kernels::Philox::block(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_EQ(kernels::Philox::uniform(0), 0.0F);
  EXPECT_EQ(kernels::Philox::uniform(0xFFFFFFFF), 1.0F - 0x1p-24F);
  EXPECT_EQ(kernels::Philox::uniform(0x80000000), 0.5F);
}

std::vector<uint32_t> words(RandomStream stream, int count) {
  std::vector<uint32_t> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(stream.next_u32());
  return drawn;
}

TEST(RandomStream, DependsOnItsKeysAlone) {
  RandomStream stream(7, RandomPurpose::augment, 3, 4);
  const std::vector<uint32_t> all = words(stream, 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(stream.next_u32(), all[static_cast<size_t>(i)]);
}

TEST(RandomStream, StreamsOfOtherKeysDiffer) {
  std::set<std::vector<uint32_t>> seen;
  int streams = 0;
  for (const uint64_t seed : {0, 1, 2}) {
    for (const RandomPurpose purpose : {RandomPurpose::init, RandomPurpose::shuffle, RandomPurpose::augment,
                                        RandomPurpose::dropout, RandomPurpose::synthetic}) {
      for (const uint64_t a : {0, 1, 2}) {
        for (const uint32_t b : {0u, 1u, 0xFFFFFFFFu}) {
          seen.insert(words(RandomStream(seed, purpose, a, b), 4));
          ++streams;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(streams));
  // One stream does not run into the next one's numbers.
  const auto first = words(RandomStream(5, RandomPurpose::init, 0, 0), 4000);
  const auto second = words(RandomStream(5, RandomPurpose::init, 0, 1), 4);
  EXPECT_EQ(std::search(first.begin(), first.end(), second.begin(), second.end()), first.end());
}

TEST(RandomStream, UniformFillsItsRange) {
  RandomStream stream(1, RandomPurpose::synthetic);
  constexpr int kDraws = 20000;
  double sum = 0;
  float low = 10, high = -10;
  for (int i = 0; i < kDraws; ++i) {
    const float value = stream.uniform(-2, 3);
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  EXPECT_GE(low, -2.0F);
  EXPECT_LT(high, 3.0F);
  EXPECT_LT(low, -2 + kDeviations * 5 / kDraws * 2);
  EXPECT_GT(high, 3 - kDeviations * 5 / kDraws * 2);
  EXPECT_LE(std::abs(sum / kDraws - 0.5), kDeviations * 5 / std::sqrt(12.0 * kDraws));
}

TEST(RandomStream, BelowReachesAllAndNoMore) {
  for (const uint64_t count : {1, 2, 3, 7, 10}) {
    RandomStream stream(2, RandomPurpose::shuffle, count);
    constexpr int kDraws = 20000;
    std::vector<int> hits(count);
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t value = stream.below(count);
      ASSERT_LT(value, count);
      ++hits[value];
    }
    const double share = 1 / static_cast<double>(count), deviation = std::sqrt(kDraws * share * (1 - share));
    for (const int hit : hits) EXPECT_LE(std::abs(hit - kDraws * share), kDeviations * deviation) << count;
  }
}

TEST(RandomStream, BelowHasNoBias) {
  // Of 3/4 of all words, scaling alone would hit each third value twice as often as the others.
  const uint64_t count = uint64_t{3} << 62;
  RandomStream stream(3, RandomPurpose::shuffle);
  constexpr int kDraws = 30000;
  std::array<int, 3> hits{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = stream.below(count);
    ASSERT_LT(value, count);
    ++hits[value % 3];
  }
  const double deviation = std::sqrt(kDraws * (1.0 / 3) * (2.0 / 3));
  for (const int hit : hits) EXPECT_LE(std::abs(hit - kDraws / 3.0), kDeviations * deviation);
}

TEST(RandomStream, NormalHasItsMoments) {
  RandomStream stream(4, RandomPurpose::init);
  constexpr int kDraws = 100000;
  std::array<double, 5> moments{};
  int within_one = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = stream.normal();
    ASSERT_TRUE(std::isfinite(value));
    for (size_t k = 1; k < moments.size(); ++k) moments[k] += std::pow(value, static_cast<double>(k)) / kDraws;
    within_one += std::abs(value) < 1 ? 1 : 0;
  }
  // Variances of the powers of a standard normal: 1, 2, 15, 96.
  EXPECT_LE(std::abs(moments[1]), kDeviations * std::sqrt(1.0 / kDraws));
  EXPECT_LE(std::abs(moments[2] - 1), kDeviations * std::sqrt(2.0 / kDraws));
  EXPECT_LE(std::abs(moments[3]), kDeviations * std::sqrt(15.0 / kDraws));
  EXPECT_LE(std::abs(moments[4] - 3), kDeviations * std::sqrt(96.0 / kDraws));
  const double share = std::erf(std::sqrt(0.5));
  EXPECT_LE(std::abs(within_one - kDraws * share), kDeviations * std::sqrt(kDraws * share * (1 - share)));
}

// The test vectors of the authors (Fowler, Noll and Vo) for 64 bits.
TEST(HashOf, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace engine::testing
