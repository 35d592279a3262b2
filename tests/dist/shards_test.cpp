#include "engine/dist/shards.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/dist/process_identity.h"
#include "engine/dist/reduce.h"
#include "engine/nn/flat_parameters.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {
namespace {

TEST(Shards, EqualOnesCoverAllInAlignedParts) {
  for (const int64_t count : {0, 1, 31, 32, 33, 1000, 25557032}) {
    for (const int size : {1, 2, 3, 8}) {
      for (const int64_t alignment : {1, 32}) {
        const Shards shards = Shards::equal(count, size, alignment);
        ASSERT_EQ(shards.size(), size);
        EXPECT_EQ(shards.count(), count);
        int64_t end = 0, largest = 0;
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_EQ(shards.part(rank).begin, end);
          EXPECT_TRUE(end % alignment == 0 || end == count);
          end = shards.part(rank).end;
          largest = std::max(largest, end - shards.part(rank).begin);
        }
        EXPECT_EQ(end, count);
        EXPECT_LE(largest, count / size + alignment);
      }
    }
  }
}

TEST(Shards, OnesOfParametersSplitNone) {
  const auto model = make_tiny_model();
  const FlatParameters flat(*model);
  for (const int size : {1, 2, 3, 5, 9}) {
    const Shards shards = Shards::of_parameters(flat.ranges(), flat.size(), size);
    EXPECT_EQ(shards.count(), flat.size());
    for (const FlatRange& range : flat.ranges()) {
      int owners = 0;
      for (int rank = 0; rank < size; ++rank) {
        const kernels::Range part = shards.part(rank);
        EXPECT_LE(part.begin, part.end);
        owners += part.begin <= range.offset && range.offset + range.count <= part.end;
      }
      EXPECT_EQ(owners, 1) << range.parameter.name << " among " << size;
    }
  }
}

TEST(Shards, WithinARangeTheyAreCountedFromItsBegin) {
  const Shards shards({10, 20, 20, 40});
  const Shards inside = shards.within(5, 30);
  EXPECT_EQ(inside.count(), 25);
  EXPECT_EQ(inside.part(0).end, 5);
  EXPECT_EQ(inside.part(1).end, 15);
  EXPECT_EQ(inside.part(2).end, 15);
  EXPECT_EQ(shards.within(12, 18).part(1).end, 6);
  EXPECT_EQ(shards.within(12, 18).part(0).end, 0);
}

TEST(Reduce, TheTargetMayBeASource) {
  std::vector<double> a{1, 2, 3}, b{10, 20, 30}, c{100, 200, 300};
  const std::vector<const void*> sources{a.data(), b.data(), c.data()};
  reduce_elements(DType::f64, ReduceOp::sum, sources, b.data(), 3);
  EXPECT_EQ(b, (std::vector<double>{111, 222, 333}));
  std::vector<uint8_t> bytes{1};
  const std::vector<const void*> refused{bytes.data()};
  EXPECT_THROW(reduce_elements(DType::u8, ReduceOp::sum, refused, bytes.data(), 1), Error);
}

TEST(ProcessIdentity, OneselfIsSeenAndOthersAreNot) {
  const ProcessIdentity own = own_identity();
  ASSERT_TRUE(is_visible(own));
  EXPECT_FALSE(has_ended(own));
  ProcessIdentity earlier = own;
  --earlier.started;  // a process that had the same id before
  EXPECT_FALSE(is_visible(earlier));
  EXPECT_TRUE(has_ended(earlier));
  ProcessIdentity elsewhere = own;
  elsewhere.table[0] ^= 1;
  EXPECT_FALSE(is_visible(elsewhere));
}

}  // namespace
}  // namespace engine::testing
