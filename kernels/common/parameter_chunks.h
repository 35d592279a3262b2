#pragma once
// How the flat buffers of parameters are cut up, so that one launch serves all of them: a block of threads a chunk.

#include <cstdint>
#include <span>
#include <vector>

namespace engine::kernels {

/// A parameter, or a run of parameters and gaps that are treated alike. For LARS it is one tensor.
struct ParameterSegment {
  int64_t offset = 0;  // elements, the same in all of the flat buffers; a multiple of kParameterAlignment
  int64_t count = 0;
  float weight_decay = 0;
  bool trust_ratio = false;  // LARS: its gradient is scaled by a ratio of norms
};

/// A part of a segment; arrays of it are read by kernels.
struct ParameterChunk {
  int64_t offset;
  int32_t count;    // 1 to kParameterChunk
  int32_t segment;  // index
  float weight_decay;
};

inline constexpr int64_t kParameterAlignment = 8;  // elements, so that 16-bit and 32-bit ones can be moved in vectors
inline constexpr int64_t kParameterChunk = 4096;

/// All segments in order, each cut into chunks from its beginning, the last one shorter. Throws std::invalid_argument
/// for an offset that is negative or not a multiple of kParameterAlignment, or for a negative count.
std::vector<ParameterChunk> parameter_chunks(std::span<const ParameterSegment> segments);

}  // namespace engine::kernels
