// Memory of accelerators from the driver's stream-ordered pool, which keeps freed blocks for the next step.

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "engine/core/allocator.h"
#include "engine/core/memory_shortage.h"
#include "engine/core/memory_trace.h"
#include "engine/core/stream.h"
#include "kernels/common/cuda_error.h"

namespace engine::detail {
namespace {

class DeviceAllocator {
 public:
  explicit DeviceAllocator(Device device) : device_(device), stream_(compute_stream(device)) {
    kernels::check_cuda(cudaDeviceGetDefaultMemPool(&pool_, device.index), "cudaDeviceGetDefaultMemPool");
    uint64_t keep = std::numeric_limits<uint64_t>::max();
    kernels::check_cuda(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                        "cudaMemPoolSetAttribute");
  }

  void* allocate(int64_t bytes, MemoryCategory category) {
    use_device(device_);
    void* pointer = nullptr;
    cudaError_t status = cudaMallocAsync(&pointer, static_cast<size_t>(bytes), stream_.handle());
    if (status == cudaErrorMemoryAllocation && give_back_kept()) {
      status = cudaMallocAsync(&pointer, static_cast<size_t>(bytes), stream_.handle());
    }
    if (status == cudaErrorMemoryAllocation) refuse_now(bytes, category);
    kernels::check_cuda(status, "cudaMallocAsync");
    account_.count(category, bytes);
    trace_memory(device_, category, bytes);
    return pointer;
  }

  void free(void* pointer, int64_t bytes, MemoryCategory category) noexcept {
    cudaSetDevice(device_.index);
    cudaFreeAsync(pointer, stream_.handle());
    account_.count(category, -bytes);
    trace_memory(device_, category, -bytes);
  }

  /// Returns the pool's unused blocks to the driver, which may join them to larger ones. Not while work is recorded.
  bool give_back_kept() {
    cudaGetLastError();
    cudaStreamCaptureStatus recording{};
    cudaStreamIsCapturing(stream_.handle(), &recording);
    if (recording != cudaStreamCaptureStatusNone) return false;
    return cudaStreamSynchronize(stream_.handle()) == cudaSuccess && cudaMemPoolTrimTo(pool_, 0) == cudaSuccess;
  }

  int64_t usable() {
    use_device(device_);
    size_t free = 0, total = 0;
    kernels::check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(free) + kept() + account_.stats().live_total;
  }

  MemoryAccount& account() { return account_; }

 private:
  int64_t kept() const {
    uint64_t reserved = 0, used = 0;
    kernels::check_cuda(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved),
                        "cudaMemPoolGetAttribute");
    kernels::check_cuda(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used),
                        "cudaMemPoolGetAttribute");
    return static_cast<int64_t>(reserved - std::min(used, reserved));
  }

  [[noreturn]] void refuse_now(int64_t bytes, MemoryCategory category) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    refuse({.device = device_,
            .requested = bytes,
            .category = category,
            .free = static_cast<int64_t>(free),
            .total = static_cast<int64_t>(total),
            .kept = kept(),
            .in_use = account_.in_use()});
  }

  Device device_;
  const Stream& stream_;
  cudaMemPool_t pool_ = nullptr;
  MemoryAccount account_;
};

DeviceAllocator& allocator_of(Device device) {
  static std::mutex mutex;
  // Never destroyed: tensors in static objects may outlive any order of destruction.
  static auto* allocators = new std::map<int, std::unique_ptr<DeviceAllocator>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<DeviceAllocator>& found = (*allocators)[device.index];
  if (!found) found = std::make_unique<DeviceAllocator>(device);
  return *found;
}

}  // namespace

void* allocate_device(int64_t bytes, MemoryCategory category, Device device) {
  return bytes == 0 ? nullptr : allocator_of(device).allocate(bytes, category);
}

void free_device(void* pointer, int64_t bytes, MemoryCategory category, Device device) noexcept {
  if (pointer != nullptr) allocator_of(device).free(pointer, bytes, category);
}

MemoryStats device_memory_stats(Device device) { return allocator_of(device).account().stats(); }
void reset_device_memory_peaks(Device device) { allocator_of(device).account().reset_peaks(); }
int64_t usable_device_memory(Device device) { return allocator_of(device).usable(); }
void release_unused_device_memory(Device device) { allocator_of(device).give_back_kept(); }

}  // namespace engine::detail
