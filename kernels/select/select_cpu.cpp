#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/select/select.h"

namespace engine::kernels {
namespace {

constexpr int64_t kPartBytes = 1 << 12;

}  // namespace

std::vector<KeptBuffer> kept_parts(std::span<const KeptBuffer> buffers) {
  std::vector<KeptBuffer> parts;
  for (const KeptBuffer& buffer : buffers) {
    if (buffer.bytes < 0 || buffer.bytes % 4 != 0) {
      throw std::invalid_argument("buffers to keep: got " + std::to_string(buffer.bytes) +
                                  " bytes, expected a multiple of 4");
    }
    for (int64_t begin = 0; begin < buffer.bytes; begin += kPartBytes) {
      parts.push_back({static_cast<char*>(buffer.live) + begin, static_cast<char*>(buffer.kept) + begin,
                       std::min(kPartBytes, buffer.bytes - begin)});
    }
  }
  return parts;
}

void keep_cpu(std::span<const KeptBuffer> buffers) {
  for (const KeptBuffer& buffer : buffers) {
    if (buffer.bytes > 0) std::memcpy(buffer.kept, buffer.live, static_cast<size_t>(buffer.bytes));
  }
}

void restore_if_skipped_cpu(const StepState& state, std::span<const KeptBuffer> buffers) {
  if (state.applied != 0) return;
  for (const KeptBuffer& buffer : buffers) {
    if (buffer.bytes > 0) std::memcpy(buffer.live, buffer.kept, static_cast<size_t>(buffer.bytes));
  }
}

}  // namespace engine::kernels
