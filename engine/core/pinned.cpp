#include "engine/core/pinned.h"

#include <utility>

#include "engine/core/error.h"
#include "kernels/common/cuda_error.h"

namespace engine {

PinnedBuffer::PinnedBuffer(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemoryError(fmt::format("out of memory: pinned host memory: requested {:.1f} MiB, expected that much",
                                       static_cast<double>(bytes) / 0x1p20),
                           "use a smaller --batch-size or smaller pictures");
  }
  kernels::check_cuda(status, "cudaHostAlloc");
  data_ = static_cast<char*>(memory);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace engine
