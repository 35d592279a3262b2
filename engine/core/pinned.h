#pragma once
// Host memory that copies to and from an accelerator need not stage.

#include <cstdint>

#include "engine/core/device.h"

namespace engine {

/// Pinned host memory. A copy that was enqueued reads or writes it when the stream gets there, so its owner waits for
/// an event behind the copy before it touches the memory again.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// Throws OutOfMemoryError.
  explicit PinnedBuffer(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace engine
