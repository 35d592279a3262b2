#include "engine/dist/bucket_plan.h"

#include "engine/core/error.h"
#include "engine/nn/flat_parameters.h"

namespace engine {
namespace {

int region_of(const FlatParameters& parameters, const FlatRange& range) {
  const auto& regions = parameters.regions();
  size_t at = 0;
  while (at + 1 < regions.size() && range.offset >= regions[at + 1].offset) ++at;
  return static_cast<int>(at);
}

}  // namespace

std::vector<Bucket> plan_buckets(const FlatParameters& parameters, int64_t first_bytes, int64_t bytes) {
  ENGINE_CHECK(first_bytes >= 1 && bytes >= 1, "[buckets] bytes: got {} and {}, expected 1 or more", first_bytes,
               bytes);
  const auto& regions = parameters.regions();
  const auto& ranges = parameters.ranges();
  std::vector<Bucket> open(regions.size()), closed;
  for (size_t at = 0; at < regions.size(); ++at) {
    open[at] = {.region = static_cast<int>(at), .begin = regions[at].count, .end = regions[at].count, .parameters = {}};
  }
  for (size_t index = ranges.size(); index-- > 0;) {
    const FlatRange& range = ranges[index];
    const auto at = static_cast<size_t>(region_of(parameters, range));
    Bucket& bucket = open[at];
    bucket.begin = range.offset - regions[at].offset;
    bucket.parameters.push_back(static_cast<int>(index));
    const int64_t size = (bucket.end - bucket.begin) * static_cast<int64_t>(size_of(regions[at].gradients.dtype()));
    if (size < (closed.empty() ? first_bytes : bytes)) continue;
    const int64_t next_end = bucket.begin;
    closed.push_back(std::move(bucket));
    bucket = {.region = static_cast<int>(at), .begin = next_end, .end = next_end, .parameters = {}};
  }
  for (Bucket& bucket : open) {
    if (bucket.end > bucket.begin) closed.push_back(std::move(bucket));
  }
  return closed;
}

}  // namespace engine
