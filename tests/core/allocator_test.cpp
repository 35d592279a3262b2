#include "engine/core/allocator.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "engine/core/tensor.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

size_t at(MemoryCategory category) { return static_cast<size_t>(category); }

Tensor bytes_of(int64_t bytes, MemoryCategory category) { return Tensor::empty(Shape{bytes}, DType::u8, category); }

TEST(Allocator, CountsLiveBytesOfEachCategory) {
  const MemoryStats before = memory_stats();
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    {
      const Tensor tensor = bytes_of(1 << 20, category);
      const MemoryStats now = memory_stats();
      for (size_t j = 0; j < kMemoryCategories; ++j) {
        EXPECT_EQ(now.live[j] - before.live[j], i == j ? 1 << 20 : 0) << name_of(category);
      }
      EXPECT_EQ(now.live_total - before.live_total, 1 << 20);
    }
    EXPECT_EQ(memory_stats().live, before.live) << name_of(category);
  }
  EXPECT_EQ(memory_stats().live_total, before.live_total);
}

TEST(Allocator, BlocksAreAlignedAndRoundedUp) {
  const MemoryStats before = memory_stats();
  const Tensor one = bytes_of(1, MemoryCategory::data), other = bytes_of(1, MemoryCategory::data);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one.raw()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(other.raw()) % 64, 0u);
  EXPECT_GE(memory_stats().live_total - before.live_total, 2);
  const Tensor none = bytes_of(0, MemoryCategory::data);
  EXPECT_EQ(none.raw(), nullptr);
}

TEST(Allocator, PeaksStayUntilReset) {
  reset_memory_peaks();
  const MemoryStats before = memory_stats();
  EXPECT_EQ(before.peak, before.live);
  EXPECT_EQ(before.peak_total, before.live_total);
  { const Tensor a = bytes_of(3 << 20, MemoryCategory::activations); }
  { const Tensor b = bytes_of(2 << 20, MemoryCategory::workspace); }
  const MemoryStats now = memory_stats();
  EXPECT_EQ(now.live_total, before.live_total);
  EXPECT_EQ(now.peak[at(MemoryCategory::activations)] - before.live[at(MemoryCategory::activations)], 3 << 20);
  EXPECT_EQ(now.peak[at(MemoryCategory::workspace)] - before.live[at(MemoryCategory::workspace)], 2 << 20);
  // Not at the same time, so the peak of all is the larger of the two.
  EXPECT_EQ(now.peak_total - before.live_total, 3 << 20);
  reset_memory_peaks();
  EXPECT_EQ(memory_stats().peak, memory_stats().live);
  EXPECT_EQ(memory_stats().peak_total, memory_stats().live_total);
}

TEST(Allocator, CountsMemoryOfOthers) {
  const MemoryStats before = memory_stats();
  count_external_memory(MemoryCategory::workspace, 12345);
  EXPECT_EQ(memory_stats().live[at(MemoryCategory::workspace)], before.live[at(MemoryCategory::workspace)] + 12345);
  EXPECT_EQ(memory_stats().live_total, before.live_total + 12345);
  count_external_memory(MemoryCategory::workspace, -12345);
  EXPECT_EQ(memory_stats().live, before.live);
}

TEST(Allocator, MoreThanTheLimitIsOutOfMemory) {
  const MemoryStats before = memory_stats();
  const int64_t limit = memory_limit();
  ASSERT_GT(limit, 0);
  const Tensor held = bytes_of(1 << 20, MemoryCategory::parameters);
  for (const int64_t bytes :
       {limit, limit + 1, std::numeric_limits<int64_t>::max() - 1, std::numeric_limits<int64_t>::max()}) {
    try {
      bytes_of(bytes, MemoryCategory::activations);
      ADD_FAILURE() << bytes << " bytes were given";
    } catch (const OutOfMemoryError& error) {
      EXPECT_EQ(static_cast<int>(error.code()), 6);
      EXPECT_FALSE(error.hint().empty());
      const std::string message = error.what();
      for (const char* part : {"out of memory", "requested", "activations", "expected at most", "parameters"}) {
        EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
      }
    }
  }
  EXPECT_THROW(Tensor::empty(Shape{std::numeric_limits<int64_t>::max()}, DType::f32), OutOfMemoryError);
  EXPECT_EQ(memory_stats().live_total, before.live_total + (1 << 20));
  bytes_of(1 << 20, MemoryCategory::activations);  // and there is memory still
}

TEST(Allocator, ThreadsDoNotDisturbEachOther) {
  const MemoryStats before = memory_stats();
  const auto work = [](uint8_t mark) {
    for (int i = 0; i < 300; ++i) {
      const int64_t bytes = 1 + i * 37 % 5000;
      const Tensor tensor = bytes_of(bytes, MemoryCategory::data);
      tensor.fill(mark);
      const auto values = tensor.to_vector<uint8_t>();
      ASSERT_EQ(std::count(values.begin(), values.end(), mark), bytes);
    }
  };
  std::vector<std::thread> threads;
  for (uint8_t mark = 1; mark <= 4; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_stats().live, before.live);
}

TEST(Allocator, CategoriesHaveNames) {
  EXPECT_STREQ(name_of(MemoryCategory::parameters), "parameters");
  EXPECT_STREQ(name_of(MemoryCategory::gradients), "gradients");
  EXPECT_STREQ(name_of(MemoryCategory::optimizer), "optimizer");
  EXPECT_STREQ(name_of(MemoryCategory::activations), "activations");
  EXPECT_STREQ(name_of(MemoryCategory::workspace), "workspace");
  EXPECT_STREQ(name_of(MemoryCategory::data), "data");
}

}  // namespace
}  // namespace engine::testing
