#include "kernels/common/parameter_chunks.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace engine::testing {
namespace {

using kernels::kParameterChunk;
using kernels::parameter_chunks;
using kernels::ParameterChunk;
using kernels::ParameterSegment;

TEST(ParameterChunks, CoverEachSegmentOnceAndNothingElse) {
  const std::vector<ParameterSegment> segments{
      {0, 2 * kParameterChunk + 1, 0.5F}, {16384, 0, 1}, {16384, kParameterChunk, 0}, {32768, 3, 0.25F}};
  const std::vector<ParameterChunk> chunks = parameter_chunks(segments);
  ASSERT_EQ(chunks.size(), 5u);
  std::vector<int64_t> end(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) end[i] = segments[i].offset;
  for (const ParameterChunk& chunk : chunks) {
    const auto segment = static_cast<size_t>(chunk.segment);
    EXPECT_EQ(chunk.offset, end[segment]);
    EXPECT_EQ(chunk.offset % kernels::kParameterAlignment, 0);
    EXPECT_GT(chunk.count, 0);
    EXPECT_LE(chunk.count, kParameterChunk);
    EXPECT_EQ(chunk.weight_decay, segments[segment].weight_decay);
    end[segment] += chunk.count;
  }
  for (size_t i = 0; i < segments.size(); ++i) EXPECT_EQ(end[i], segments[i].offset + segments[i].count);
}

TEST(ParameterChunks, RefuseOffsetsThatVectorsCannotReach) {
  EXPECT_THROW(parameter_chunks(std::vector<ParameterSegment>{{4, 1}}), std::invalid_argument);
  EXPECT_THROW(parameter_chunks(std::vector<ParameterSegment>{{-8, 1}}), std::invalid_argument);
  EXPECT_THROW(parameter_chunks(std::vector<ParameterSegment>{{0, -1}}), std::invalid_argument);
  EXPECT_TRUE(parameter_chunks(std::vector<ParameterSegment>{}).empty());
}

}  // namespace
}  // namespace engine::testing
