#include "engine/core/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace engine::testing {
namespace {

TEST(Arena, HandsOutNeighbours) {
  Arena arena(1000);
  EXPECT_EQ(arena.allocate(100), 0);
  EXPECT_EQ(arena.allocate(200), 100);
  EXPECT_EQ(arena.allocate(300), 300);
  EXPECT_EQ(arena.high_water(), 600);
  EXPECT_EQ(arena.largest_free(), 400);
}

TEST(Arena, TakesTheSmallestGapThatFits) {
  Arena arena(10000);
  // Gaps of 300, 100 and 200, held apart.
  const std::vector<int64_t> sizes = {300, 10, 100, 10, 200, 10};
  std::vector<int64_t> offsets;
  for (const int64_t size : sizes) offsets.push_back(arena.allocate(size).value());
  for (const size_t i : {0u, 2u, 4u}) arena.free(offsets[i], sizes[i]);
  EXPECT_EQ(arena.allocate(150), offsets[4]);
  EXPECT_EQ(arena.allocate(100), offsets[2]);
  EXPECT_EQ(arena.allocate(50), offsets[4] + 150);
  EXPECT_EQ(arena.allocate(301), 630);  // no gap is large enough
  EXPECT_EQ(arena.allocate(300), offsets[0]);
}

TEST(Arena, GapsGrowTogetherOnBothSides) {
  for (const std::vector<size_t>& order : {std::vector<size_t>{0, 1, 2}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}}) {
    Arena arena(1000);
    std::vector<int64_t> offsets;
    for (int i = 0; i < 4; ++i) offsets.push_back(arena.allocate(100).value());
    for (const size_t i : order) arena.free(offsets[i], 100);
    EXPECT_EQ(arena.allocate(300), 0) << order[0] << order[1] << order[2];
  }
}

TEST(Arena, AGapAtTheTopIsGivenBack) {
  Arena arena(1000);
  const int64_t low = arena.allocate(100).value(), high = arena.allocate(800).value();
  EXPECT_FALSE(arena.allocate(200).has_value());
  arena.free(high, 800);
  EXPECT_EQ(arena.largest_free(), 900);
  EXPECT_EQ(arena.allocate(900), 100);
  arena.free(100, 900);
  arena.free(low, 100);
  EXPECT_EQ(arena.allocate(1000), 0);
  EXPECT_EQ(arena.high_water(), 1000);
  EXPECT_EQ(arena.largest_free(), 0);
}

/// The same rules over a map of bytes in use: slow and plain.
class NaiveArena {
 public:
  explicit NaiveArena(int64_t capacity) : used_(static_cast<size_t>(capacity)) {}

  /// Offset and size of each maximal run of free bytes.
  std::map<int64_t, int64_t> gaps() const {
    std::map<int64_t, int64_t> found;
    for (size_t i = 0; i < used_.size();) {
      const size_t begin = i;
      while (i < used_.size() && !used_[i]) ++i;
      if (i > begin) found[static_cast<int64_t>(begin)] = static_cast<int64_t>(i - begin);
      while (i < used_.size() && used_[i]) ++i;
    }
    return found;
  }
  /// The gap up to the end counts as the largest, however short it is: it is used where no other fits.
  std::optional<int64_t> best_fit(int64_t bytes) const {
    std::optional<int64_t> best, last;
    const auto all = gaps();
    for (const auto& [offset, size] : all) {
      if (size < bytes) continue;
      if (offset + size == static_cast<int64_t>(used_.size())) {
        last = offset;
      } else if (!best || size < all.at(*best)) {
        best = offset;
      }
    }
    return best ? best : last;
  }
  void mark(int64_t offset, int64_t bytes, bool used) {
    for (int64_t i = offset; i < offset + bytes; ++i) {
      ASSERT_NE(used_[static_cast<size_t>(i)], used) << "byte " << i;
      used_[static_cast<size_t>(i)] = used;
    }
  }

 private:
  std::vector<bool> used_;
};

TEST(Arena, RandomUseAgreesWithAPlainModel) {
  constexpr int64_t kCapacity = 600;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Arena arena(kCapacity);
    NaiveArena naive(kCapacity);
    std::vector<std::pair<int64_t, int64_t>> blocks;
    for (int i = 0; i < 400; ++i) {
      if (blocks.empty() || random() % 5 < 3) {
        const auto bytes = static_cast<int64_t>(1 + random() % 60);
        const auto got = arena.allocate(bytes);
        ASSERT_EQ(got, naive.best_fit(bytes)) << "seed " << seed << " step " << i << " bytes " << bytes;
        if (!got) continue;
        naive.mark(*got, bytes, true);
        blocks.emplace_back(*got, bytes);
      } else {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        arena.free(blocks.back().first, blocks.back().second);
        naive.mark(blocks.back().first, blocks.back().second, false);
        blocks.pop_back();
      }
      int64_t largest = 0;
      for (const auto& [offset, size] : naive.gaps()) largest = std::max(largest, size);
      ASSERT_EQ(arena.largest_free(), largest) << "seed " << seed << " step " << i;
    }
    for (const auto& [offset, bytes] : blocks) arena.free(offset, bytes);
    EXPECT_EQ(arena.allocate(kCapacity), 0);
  }
}

}  // namespace
}  // namespace engine::testing
