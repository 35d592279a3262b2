// Calls that take and give back memory, and the pools' books.

#include <algorithm>

#include "kernels/emulator/capture.h"
#include "kernels/emulator/poison.h"

namespace emulator {
namespace {

constexpr size_t kPoolUnit = 512;                 // pools hand out multiples of it
constexpr size_t kReserveUnit = size_t{2} << 20;  // and take multiples of it from the device

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

Device& device_of(Runtime& runtime, int device) { return *runtime.devices[static_cast<size_t>(device)]; }

/// Takes a live block out of the program's hands and out of the books.
void strike(Runtime& runtime, Block& block, uint64_t stream) {
  block.live = false;
  if (Observer* watcher = observer()) watcher->freed(block.allocation, stream);
  if (block.allocation.device < 0) return;
  Device& device = device_of(runtime, block.allocation.device);
  if (block.pooled) {
    device.pool_used -= round_up(block.allocation.bytes, kPoolUnit);
  } else {
    device.malloc_bytes -= block.allocation.bytes;
  }
}

cudaError_t allocate_now(Runtime& runtime, void** pointer, size_t bytes) {
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Device& device = device_of(runtime, current_device());
  if (!device.make_room(bytes, false, runtime.settings.memory_bytes)) return cudaErrorMemoryAllocation;
  Block* block = device.arena->allocate(bytes);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  device.malloc_bytes += bytes;
  ++runtime.counters.allocations;
  if (Observer* watcher = observer()) watcher->allocated(block->allocation, 0);
  *pointer = block->allocation.base;
  return cudaSuccess;
}

std::shared_ptr<Work> memory_work(OperationKind kind, const Block& block, std::function<void()> body) {
  auto work = make_work(kind, kind == OperationKind::release ? "cudaFreeAsync" : "cudaMallocAsync", std::move(body));
  work->what.writes = {{block.allocation.base, block.allocation.bytes}};
  return work;
}

cudaError_t allocate_in_stream(Runtime& runtime, void** pointer, size_t bytes, cudaStream_t handle) {
  *pointer = nullptr;
  StreamState* stream = runtime.stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (stream->capture) return allocate_in_capture(runtime, *stream, pointer, bytes);
  Device& device = device_of(runtime, stream->device);
  const size_t taken = round_up(bytes, kPoolUnit);
  if (!device.make_room(taken, true, runtime.settings.memory_bytes)) return cudaErrorMemoryAllocation;
  Block* block = device.arena->allocate(bytes);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  block->pooled = true;
  device.use_pool(taken);
  ++runtime.counters.allocations;
  if (Observer* watcher = observer()) watcher->allocated(block->allocation, stream->id);
  *pointer = block->allocation.base;
  return runtime.submit(*stream, memory_work(OperationKind::allocation, *block, nullptr));
}

/// The end of memory that a graph's launch left; its addresses stay the graph's.
cudaError_t free_outstanding(Runtime& runtime, StreamState& stream, GraphMemory& part) {
  part.outstanding = false;
  const Allocation memory = part.block->allocation;
  return runtime.submit(
      stream, memory_work(OperationKind::release, *part.block, [memory] { poison(memory.base, memory.bytes); }));
}

cudaError_t free_in_stream(Runtime& runtime, void* pointer, cudaStream_t handle) {
  StreamState* stream = runtime.stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (pointer == nullptr) return cudaSuccess;
  if (stream->capture) return free_in_capture(*stream, pointer);
  if (GraphMemory* part = outstanding_memory(runtime, pointer)) return free_outstanding(runtime, *stream, *part);
  Block* block = runtime.find_block(pointer);
  if (block == nullptr || !block->live || block->in_graph || block->allocation.base != pointer ||
      block->allocation.device < 0) {
    return cudaErrorInvalidValue;
  }
  strike(runtime, *block, stream->id);
  Device& device = device_of(runtime, block->allocation.device);
  const size_t bytes = block->allocation.bytes;
  auto op = runtime.enqueue(*stream, memory_work(OperationKind::release, *block, [&device, block, bytes] {
    device.deferred_bytes -= bytes;
    if (device.arena->release(*block) && device.fault == cudaSuccess) device.fault = cudaErrorIllegalAddress;
  }));
  if (!op->done) device.frees.emplace_back(op, bytes);
  device.deferred_bytes += bytes;
  while (!device.frees.empty() &&
         (device.frees.front().first->done || device.deferred_bytes > runtime.settings.deferred_free_bytes)) {
    runtime.complete(device.frees.front().first);
    device.frees.pop_front();
  }
  return cudaSuccess;
}

cudaError_t free_now(Runtime& runtime, void* pointer) {
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  if (GraphMemory* part = outstanding_memory(runtime, pointer)) {
    runtime.wait_for_device(part->block->allocation.device);
    part->outstanding = false;
    runtime.open_devices();
    return poison(part->block->allocation.base, part->block->allocation.bytes), cudaSuccess;
  }
  Block* block = runtime.find_block(pointer);
  if (block == nullptr || !block->live || block->in_graph || block->allocation.base != pointer ||
      block->allocation.device < 0) {
    return cudaErrorInvalidValue;
  }
  runtime.wait_for_device(block->allocation.device);
  strike(runtime, *block, 0);
  const bool broken = device_of(runtime, block->allocation.device).arena->release(*block);
  return broken ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t allocate_pinned(Runtime& runtime, void** pointer, size_t bytes) {
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Block* block = runtime.pinned->allocate(bytes);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  if (Observer* watcher = observer()) watcher->allocated(block->allocation, 0);
  *pointer = block->allocation.base;
  return cudaSuccess;
}

cudaError_t free_pinned(Runtime& runtime, void* pointer) {
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  Block* block = runtime.pinned->find(pointer);
  if (block == nullptr || block->allocation.base != pointer) return cudaErrorInvalidValue;
  strike(runtime, *block, 0);
  return runtime.pinned->release(*block) ? cudaErrorIllegalAddress : cudaSuccess;
}

Device* pool_device(Runtime& runtime, cudaMemPool_t pool) {
  const uint64_t id = handle_id(pool);
  return id >= 1 && id <= runtime.devices.size() ? runtime.devices[id - 1].get() : nullptr;
}

cudaError_t set_pool(Device* device, cudaMemPoolAttr attribute, uint64_t value) {
  if (device == nullptr) return cudaErrorInvalidValue;
  if (attribute == cudaMemPoolAttrReleaseThreshold) return device->pool_threshold = value, cudaSuccess;
  if (value != 0) return cudaErrorInvalidValue;
  if (attribute == cudaMemPoolAttrUsedMemHigh) return device->pool_used_high = device->pool_used, cudaSuccess;
  if (attribute != cudaMemPoolAttrReservedMemHigh) return cudaErrorInvalidValue;
  return device->pool_reserved_high = device->pool_reserved, cudaSuccess;
}

cudaError_t get_pool(const Device* device, cudaMemPoolAttr attribute, uint64_t& value) {
  if (device == nullptr) return cudaErrorInvalidValue;
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return value = device->pool_threshold, cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      return value = device->pool_reserved, cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      return value = device->pool_reserved_high, cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      return value = device->pool_used, cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      return value = device->pool_used_high, cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

bool Device::make_room(size_t bytes, bool pool, size_t limit) {
  const size_t used = malloc_bytes + graph_bytes + pool_used;
  if (used > limit || bytes > limit - used) return false;
  const size_t others = malloc_bytes + graph_bytes + (pool ? 0 : bytes);
  pool_reserved = std::min(pool_reserved, limit - others);
  return true;
}

void Device::use_pool(size_t bytes) {
  pool_used += bytes;
  pool_used_high = std::max(pool_used_high, pool_used);
  pool_reserved = std::max(pool_reserved, round_up(pool_used, kReserveUnit));
  pool_reserved_high = std::max(pool_reserved_high, pool_reserved);
}

void Device::trim(size_t keep) {
  pool_reserved = std::max(round_up(pool_used, kReserveUnit), std::min(pool_reserved, keep));
}

}  // namespace emulator

using emulator::api_call;
using emulator::Runtime;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return api_call([&](Runtime& runtime) { return emulator::allocate_now(runtime, pointer, bytes); });
}

cudaError_t cudaFree(void* pointer) {
  return api_call([&](Runtime& runtime) { return emulator::free_now(runtime, pointer); });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) { return emulator::allocate_in_stream(runtime, pointer, bytes, stream); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) { return emulator::free_in_stream(runtime, pointer, stream); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return api_call([&](Runtime& runtime) { return emulator::allocate_pinned(runtime, pointer, bytes); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return api_call([&](Runtime& runtime) { return emulator::free_pinned(runtime, pointer); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api_call([&](Runtime& runtime) {
    const emulator::Device& device = *runtime.devices[static_cast<size_t>(emulator::current_device())];
    const size_t used = device.malloc_bytes + device.graph_bytes + std::max(device.pool_reserved, device.pool_used);
    *total = runtime.settings.memory_bytes;
    *free = *total - std::min(used, *total);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api_call([&](Runtime& runtime) {
    if (device < 0 || device >= runtime.settings.devices) return cudaErrorInvalidDevice;
    *pool = emulator::make_handle<cudaMemPool_t>(static_cast<uint64_t>(device) + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api_call([&](Runtime& runtime) {
    return emulator::set_pool(emulator::pool_device(runtime, pool), attribute, *static_cast<uint64_t*>(value));
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api_call([&](Runtime& runtime) {
    return emulator::get_pool(emulator::pool_device(runtime, pool), attribute, *static_cast<uint64_t*>(value));
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep) {
  return api_call([&](Runtime& runtime) {
    emulator::Device* device = emulator::pool_device(runtime, pool);
    if (device == nullptr) return cudaErrorInvalidValue;
    device->trim(bytes_to_keep);
    return cudaSuccess;
  });
}
