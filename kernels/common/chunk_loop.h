#pragma once
// A block of threads walks through a chunk of the flat buffers.

#include "kernels/common/device.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/values.h"

namespace engine::kernels {

inline constexpr int kChunkThreads = 256;

/// Calls body(Count<4>, i) for each four elements at i of the buffers, then body(Count<1>, i) for what is left.
template <typename Body>
__device__ void for_each_in_chunk(const ParameterChunk& chunk, Body body) {
  const int whole = chunk.count / 4 * 4;
  for (int i = 4 * static_cast<int>(threadIdx.x); i < whole; i += 4 * kChunkThreads) body(Count<4>(), chunk.offset + i);
  const int last = whole + static_cast<int>(threadIdx.x);
  if (last < chunk.count) body(Count<1>(), chunk.offset + last);
}

/// p + i, or null for null.
template <typename T>
__device__ T* offset_or_null(T* p, int64_t i) {
  return p == nullptr ? p : p + i;
}

}  // namespace engine::kernels
