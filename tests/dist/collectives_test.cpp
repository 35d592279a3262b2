// Collectives against closed forms, on as many processes as the test program has.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "engine/core/error.h"
#include "tests/dist/world.h"

namespace engine::testing {
namespace {

template <typename T>
class Collectives : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double, kernels::Half, kernels::BFloat16, int64_t>;
TYPED_TEST_SUITE(Collectives, ElementTypes);

template <typename T>
T element(int value) {
  if constexpr (std::is_integral_v<T>)
    return value;
  else
    return static_cast<T>(static_cast<float>(value));
}

template <typename T>
double number(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<float>(value);
}

template <typename T>
std::vector<T> own_values(int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element<T>(value_of(world().rank(), i)));
  return values;
}

double expected(ReduceOp op, int64_t i) {
  double sum = 0, most = -std::numeric_limits<double>::infinity();
  for (int rank = 0; rank < world().size(); ++rank) {
    sum += value_of(rank, i);
    most = std::max<double>(most, value_of(rank, i));
  }
  if (op == ReduceOp::max) return most;
  return op == ReduceOp::sum ? sum : sum / world().size();
}

// None, fewer than ranks, odd ones, more than one piece a part.
const std::vector<int64_t> kCounts{0, 1, 3, 7, 1000, 4099, 300007};

TYPED_TEST(Collectives, AllReduceIsTheClosedForm) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
    if (op == ReduceOp::average && std::is_same_v<TypeParam, int64_t>) continue;
    for (const int64_t count : kCounts) {
      auto values = own_values<TypeParam>(count);
      world().all_reduce("values", buffer_of(std::span(values)), op);
      for (int64_t i = 0; i < count; ++i) {
        const double got = number(values[static_cast<size_t>(i)]);
        double want = expected(op, i);
        // Thirds are rounded as the type rounds them.
        if constexpr (!std::is_integral_v<TypeParam>) want = number(static_cast<TypeParam>(static_cast<float>(want)));
        if constexpr (std::is_same_v<TypeParam, double>) want = expected(op, i);
        ASSERT_EQ(got, want) << name_of(op) << " of " << count << ", element " << i;
      }
    }
  }
}

TYPED_TEST(Collectives, ReduceScatterAndAllGatherTogetherAreAllReduce) {
  for (const int64_t count : kCounts) {
    for (const int64_t alignment : {1, 32}) {
      const Shards parts = Shards::equal(count, world().size(), alignment);
      auto values = own_values<TypeParam>(count);
      world().reduce_scatter("values", buffer_of(std::span(values)), parts);
      const kernels::Range own = parts.part(world().rank());
      for (int64_t i = own.begin; i < own.end; ++i) {
        ASSERT_EQ(number(values[static_cast<size_t>(i)]), expected(ReduceOp::sum, i));
      }
      for (int64_t i = 0; i < count; ++i) {
        if (i < own.begin || i >= own.end) values[static_cast<size_t>(i)] = element<TypeParam>(99);
      }
      world().all_gather("values", buffer_of(std::span(values)), parts);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(number(values[static_cast<size_t>(i)]), expected(ReduceOp::sum, i)) << count << " " << i;
      }
    }
  }
}

TYPED_TEST(Collectives, BroadcastGivesEveryRankTheRootsElements) {
  for (int root = 0; root < world().size(); ++root) {
    for (const int64_t count : kCounts) {
      auto values = own_values<TypeParam>(count);
      world().broadcast("values", buffer_of(std::span(values)), root);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(number(values[static_cast<size_t>(i)]), value_of(root, i)) << count << " from " << root;
      }
    }
  }
}

TEST(CollectivesOrder, SumsAreThoseOfTheOrderOfRanks) {
  // Terms whose sum depends on the order: the definition is left to right in f32.
  constexpr int64_t kCount = 100003;
  const auto term = [](int rank, int64_t i) {
    return static_cast<float>(std::sin(static_cast<double>(i * 31 + rank * 17))) * std::pow(10.0F, (rank * 3 + i) % 7);
  };
  std::vector<std::vector<float>> terms;
  for (int rank = 0; rank < world().size(); ++rank) {
    terms.emplace_back();
    for (int64_t i = 0; i < kCount; ++i) terms.back().push_back(term(rank, i));
  }
  const std::vector<float>& values = terms[static_cast<size_t>(world().rank())];
  std::vector<float> want = terms[0];
  for (size_t rank = 1; rank < terms.size(); ++rank) {
    for (size_t i = 0; i < want.size(); ++i) want[i] += terms[rank][i];
  }
  for (const int64_t alignment : {1, 7, 4096}) {
    std::vector<float> got = values;
    Collective collective{.kind = CollectiveKind::all_reduce, .name = "terms", .buffer = buffer_of(std::span(got))};
    collective.parts = Shards::equal(kCount, world().size(), alignment);
    world().start(collective).wait();
    EXPECT_EQ(got, want) << alignment;
  }
}

TEST(CollectivesOrder, HalvesAreAddedInF32AndRoundedOnce) {
  // 2048 + 1 + 1 ...: each step alone would round back to 2048 in f16.
  std::vector<kernels::Half> values{kernels::Half(world().rank() == 0 ? 2048.0F : 1.0F)};
  world().all_reduce("halves", buffer_of(std::span(values)));
  const float sum = 2048.0F + static_cast<float>(world().size() - 1);
  EXPECT_EQ(static_cast<float>(values[0]), static_cast<float>(kernels::Half(sum)));
}

TEST(CollectivesOrder, ANanAnywhereIsSeenEverywhere) {
  for (int bad = 0; bad < world().size(); ++bad) {
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::sum, ReduceOp::average}) {
      std::vector<float> values{world().rank() == bad ? std::nanf("") : 1.0F, 2.0F};
      world().all_reduce("flags", buffer_of(std::span(values)), op);
      EXPECT_TRUE(std::isnan(values[0]));
      EXPECT_FALSE(std::isnan(values[1]));
    }
  }
}

TEST(CollectivesOrder, ManyAreUnderWayAtOnceOnAllChannels) {
  constexpr int kOperations = 40;
  std::vector<std::vector<float>> buffers;
  std::vector<Request> requests;
  for (int k = 0; k < kOperations; ++k) buffers.push_back(own_values<float>(1000 * k + 1));
  for (int k = 0; k < kOperations; ++k) {
    Collective collective{.kind = CollectiveKind::all_reduce,
                          .name = "buffer " + std::to_string(k),
                          .buffer = buffer_of(std::span(buffers[static_cast<size_t>(k)])),
                          .channel = static_cast<Channel>(k % kChannels)};
    requests.push_back(world().start(collective));
  }
  for (Request& request : requests) request.wait();
  for (const auto& buffer : buffers) {
    for (size_t i = 0; i < buffer.size(); ++i) {
      ASSERT_EQ(buffer[i], static_cast<float>(expected(ReduceOp::sum, static_cast<int64_t>(i))));
    }
  }
}

TEST(CollectivesOrder, ChannelsDoNotWaitForEachOther) {
  // Each rank begins with another channel, and finishes it before it begins the other one only where it is alone.
  std::vector<float> a{1}, b{2};
  Collective first{.kind = CollectiveKind::all_reduce, .name = "a", .buffer = buffer_of(std::span(a))};
  Collective second{.kind = CollectiveKind::all_reduce, .name = "b", .buffer = buffer_of(std::span(b))};
  second.channel = Channel::device;
  Request one = world().start(world().rank() % 2 == 0 ? first : second);
  Request two = world().start(world().rank() % 2 == 0 ? second : first);
  two.wait();
  one.wait();
  EXPECT_EQ(a[0], static_cast<float>(world().size()));
  EXPECT_EQ(b[0], static_cast<float>(2 * world().size()));
}

TEST(CollectivesOrder, OperationsGoOnWhileTheCallerComputes) {
  std::vector<float> values = own_values<float>(5000000);
  Request request = world().start_all_reduce("values", buffer_of(std::span(values)));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // Nobody waits: only the other thread can carry it.
  while (!request.done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(request.done());
  request.wait();
  EXPECT_EQ(values[4999999], static_cast<float>(expected(ReduceOp::sum, 4999999)));
}

TEST(CollectivesOrder, EveryRankSeesEveryText) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<size_t>(rank) * 3, 'a' + static_cast<char>(rank));
  };
  const std::vector<std::string> texts = world().gather_texts("texts", text_of(world().rank()));
  ASSERT_EQ(texts.size(), static_cast<size_t>(world().size()));
  for (int rank = 0; rank < world().size(); ++rank) EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
}

TEST(CollectivesOrder, WhatCannotBeReducedIsRefusedBeforeAnythingIsSent) {
  std::vector<int64_t> counts{1};
  std::vector<uint8_t> bytes{1};
  EXPECT_THROW(world().all_reduce("counts", buffer_of(std::span(counts)), ReduceOp::average), Error);
  EXPECT_THROW(world().all_reduce("bytes", buffer_of(std::span(bytes))), Error);
  EXPECT_THROW(world().broadcast("bytes", buffer_of(std::span(bytes)), world().size()), Error);
  EXPECT_THROW(world().all_gather("bytes", buffer_of(std::span(bytes)), Shards::equal(2, world().size())), Error);
  world().all_reduce("counts", buffer_of(std::span(counts)));
  EXPECT_EQ(counts[0], world().size());
}

}  // namespace
}  // namespace engine::testing
