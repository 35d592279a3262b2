// Memory of accelerators from the driver's stream-ordered pool, which keeps freed blocks for the next step.

#include <limits>
#include <map>
#include <mutex>

#include "engine/core/allocator.h"
#include "engine/core/memory_trace.h"
#include "engine/core/error.h"
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
    if (status == cudaErrorMemoryAllocation) refuse(bytes, category);
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

  MemoryAccount& account() { return account_; }

 private:
  /// Returns the pool's unused blocks to the driver, which may join them to larger ones. Not while work is recorded.
  bool give_back_kept() {
    cudaGetLastError();
    cudaStreamCaptureStatus recording{};
    cudaStreamIsCapturing(stream_.handle(), &recording);
    if (recording != cudaStreamCaptureStatusNone) return false;
    return cudaStreamSynchronize(stream_.handle()) == cudaSuccess && cudaMemPoolTrimTo(pool_, 0) == cudaSuccess;
  }

  [[noreturn]] void refuse(int64_t bytes, MemoryCategory category) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    const auto mib = [](auto size) { return static_cast<double>(size) / 0x1p20; };
    throw OutOfMemoryError(
        fmt::format(
            "out of memory: {}: requested {:.1f} MiB for {}, expected at most {:.1f} MiB free of {:.1f} MiB; in "
            "use by this process: {}",
            name_of(device_), mib(bytes), name_of(category), mib(free), mib(total), account_.in_use()),
        "use a smaller --batch-size (with --accumulate-steps for the same global batch) or smaller pictures");
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

}  // namespace engine::detail
