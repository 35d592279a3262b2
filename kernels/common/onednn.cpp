#include "kernels/common/onednn.h"

#include <atomic>
#include <cassert>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "kernels/common/onednn_api.h"

namespace engine::kernels {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Buffer {
  char* data;
  size_t bytes;
};

// Buffers that no call is using. A call takes the last one and replaces it when it is too small, so that calls from one
// thread share a single buffer.
class BufferPool {
 public:
  ~BufferPool() { release(); }

  Buffer take(size_t bytes) {
    Buffer buffer{nullptr, 0};
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        buffer = idle_.back();
        idle_.pop_back();
      }
    }
    if (buffer.bytes < bytes) {
      destroy(buffer);
      buffer = {static_cast<char*>(::operator new(bytes, kAlignment)), bytes};
      held_ += static_cast<int64_t>(bytes);
    }
    return buffer;
  }

  void give_back(Buffer buffer) {
    if (buffer.data == nullptr) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(buffer);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    for (const Buffer& buffer : idle_) destroy(buffer);
    idle_.clear();
  }

  int64_t held() const { return held_; }

 private:
  void destroy(const Buffer& buffer) {
    ::operator delete(buffer.data, kAlignment);
    held_ -= static_cast<int64_t>(buffer.bytes);
  }

  std::mutex mutex_;
  std::vector<Buffer> idle_;
  std::atomic<int64_t> held_{0};
};

BufferPool& pool() {
  static BufferPool instance;
  return instance;
}

}  // namespace

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' + std::to_string(version->patch);
}

bool onednn_has_bf16() {
  static const bool has = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

int64_t onednn_scratch_bytes() { return pool().held(); }

void onednn_release_scratch() { pool().release(); }

Scratch::Scratch(size_t bytes) {
  const Buffer buffer = pool().take(bytes);
  data_ = buffer.data;
  bytes_ = buffer.bytes;
}

Scratch::~Scratch() { pool().give_back({data_, bytes_}); }

void* Scratch::take(size_t bytes) {
  assert(used_ + bytes <= bytes_);
  void* piece = data_ + used_;
  used_ += padded(bytes);
  return piece;
}

}  // namespace engine::kernels
