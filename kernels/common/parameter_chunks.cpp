#include "kernels/common/parameter_chunks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace engine::kernels {

std::vector<ParameterChunk> parameter_chunks(std::span<const ParameterSegment> segments) {
  std::vector<ParameterChunk> chunks;
  for (size_t i = 0; i < segments.size(); ++i) {
    const ParameterSegment& segment = segments[i];
    if (segment.offset < 0 || segment.offset % kParameterAlignment != 0 || segment.count < 0) {
      throw std::invalid_argument("segment " + std::to_string(i) + " of the parameters: got offset " +
                                  std::to_string(segment.offset) + " and count " + std::to_string(segment.count) +
                                  ", expected offsets that are multiples of " + std::to_string(kParameterAlignment) +
                                  " and counts of 0 or more");
    }
    for (int64_t begin = 0; begin < segment.count; begin += kParameterChunk) {
      const auto count = static_cast<int32_t>(std::min(kParameterChunk, segment.count - begin));
      chunks.push_back({segment.offset + begin, count, static_cast<int32_t>(i), segment.weight_decay});
    }
  }
  return chunks;
}

}  // namespace engine::kernels
