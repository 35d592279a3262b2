#include "kernels/select/select.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace engine::testing {
namespace {

using kernels::KeptBuffer;

TEST(Select, RestoresOnlyASkippedStep) {
  for (const int applied : {0, 1}) {
    std::vector<float> statistics{1, 2, 3}, kept_statistics(3);
    std::vector<int64_t> counter{5}, kept_counter(1);
    const std::vector<KeptBuffer> buffers{{statistics.data(), kept_statistics.data(), 12},
                                          {counter.data(), kept_counter.data(), 8}};
    kernels::keep_cpu(buffers);
    statistics = {7, 8, 9};
    counter = {6};
    kernels::restore_if_skipped_cpu({.applied = applied}, buffers);
    EXPECT_EQ(statistics, applied == 0 ? (std::vector<float>{1, 2, 3}) : (std::vector<float>{7, 8, 9}));
    EXPECT_EQ(counter[0], applied == 0 ? 5 : 6);
  }
}

TEST(Select, PartsCoverEachBufferOnce) {
  std::vector<char> live(100000), kept(100000);
  const std::vector<KeptBuffer> buffers{{live.data(), kept.data(), 50000}, {live.data() + 60000, kept.data(), 0}};
  int64_t covered = 0;
  for (const KeptBuffer& part : kernels::kept_parts(buffers)) {
    EXPECT_EQ(part.live, live.data() + covered);
    EXPECT_EQ(part.kept, kept.data() + covered);
    EXPECT_GT(part.bytes, 0);
    covered += part.bytes;
  }
  EXPECT_EQ(covered, 50000);
  EXPECT_THROW(kernels::kept_parts(std::vector<KeptBuffer>{{live.data(), kept.data(), 6}}), std::invalid_argument);
  EXPECT_THROW(kernels::kept_parts(std::vector<KeptBuffer>{{live.data(), kept.data(), -4}}), std::invalid_argument);
}

}  // namespace
}  // namespace engine::testing
