#include "engine/train/config.h"

#include <gtest/gtest.h>

namespace engine::testing {
namespace {

TEST(Config, MemorySizesHaveUnits) {
  EXPECT_EQ(memory_size("1KiB"), 1024);
  EXPECT_EQ(memory_size("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(memory_size("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(memory_size("2TiB"), int64_t{2} << 40);
  for (const char* bad :
       {"", "8", "8GB", "8 GiB", "-1GiB", "0MiB", "nanGiB", "infGiB", "1e30GiB", "GiB", "8GiBx", "0x8GiB"}) {
    EXPECT_FALSE(memory_size(bad).has_value()) << bad;
  }
}

TEST(Config, LossScalesAreInTheirRange) {
  EXPECT_EQ(fixed_loss_scale("128"), 128.0F);
  EXPECT_EQ(fixed_loss_scale("1"), 1.0F);
  EXPECT_EQ(fixed_loss_scale("16777216"), 16777216.0F);
  for (const char* bad : {"", "dynamic", "0", "-1", "0.5", "1e30", "16777217", "nan", "inf", "128x", " 128"}) {
    EXPECT_FALSE(fixed_loss_scale(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace engine::testing
