// Calls about devices, and the emulator's own.

#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/emulator/capture.h"
#include "kernels/emulator/execution.h"

namespace emulator {
namespace {

constexpr int kVersion = 13000;

cudaError_t properties_of(Runtime& runtime, cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= runtime.settings.devices) return cudaErrorInvalidDevice;
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "Emulated device");
  properties->totalGlobalMem = runtime.settings.memory_bytes;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

}  // namespace

void configure(const Settings& settings) {
  if (inside_work()) throw std::logic_error("emulator::configure: work is running");
  Entry entry;
  Runtime& runtime = entry.runtime();
  if (!runtime.idle()) throw std::logic_error("emulator::configure: work is queued");
  if (settings.devices < 1) throw std::invalid_argument("emulator::configure: fewer than one device");
  for (size_t device = static_cast<size_t>(settings.devices); device < runtime.devices.size(); ++device) {
    runtime.devices[device]->arena->each([](const Block&) {
      throw std::invalid_argument("emulator::configure: a device that is to go has memory in use");
    });
  }
  for (auto& [id, stream] : runtime.streams) {
    if (stream->device >= settings.devices) {
      throw std::invalid_argument("emulator::configure: a device that is to go has streams");
    }
  }
  runtime.settings = settings;
  runtime.reset_devices();
}

Settings settings() {
  Entry entry;
  return entry.runtime().settings;
}

cudaError_t synchronize_all() {
  return api_call([](Runtime& runtime) {
    if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
    runtime.complete_all();
    if (Observer* watcher = observer()) watcher->host_waits_for_all();
    cudaError_t first = cudaSuccess;
    for (int device = 0; device < runtime.settings.devices; ++device) {
      const cudaError_t fault = runtime.take_fault(device);
      if (first == cudaSuccess) first = fault;
    }
    return first;
  });
}

std::vector<Allocation> live_allocations() {
  Entry entry;
  Runtime& runtime = entry.runtime();
  std::map<uint64_t, Allocation> found;
  const auto add = [&](const Block& block) {
    if (block.live && !block.in_graph) found[block.allocation.id] = block.allocation;
  };
  for (auto& device : runtime.devices) device->arena->each(add);
  runtime.pinned->each(add);
  std::vector<Allocation> result;
  for (const auto& [id, allocation] : found) result.push_back(allocation);
  return result;
}

std::optional<Allocation> find_allocation(const void* address) {
  const std::optional<Entry> entry = holds_lock() ? std::nullopt : std::optional<Entry>(std::in_place);
  const Block* block = Runtime::get().find_block(address);
  return block == nullptr ? std::nullopt : std::optional(block->allocation);
}

bool emulated_memory(const void* address) {
  const std::optional<Entry> entry = holds_lock() ? std::nullopt : std::optional<Entry>(std::in_place);
  const Runtime& runtime = Runtime::get();
  for (auto& device : runtime.devices) {
    if (device->arena->contains(address)) return true;
  }
  return runtime.pinned->contains(address);
}

Counters counters() {
  Entry entry;
  Counters result = entry.runtime().counters;
  result.threads = threads_run();
  result.fiber_switches = fiber_switches();
  return result;
}

}  // namespace emulator

using emulator::api_call;
using emulator::current_device;
using emulator::Runtime;

cudaError_t cudaDriverGetVersion(int* version) { return *version = emulator::kVersion, cudaSuccess; }

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = emulator::kVersion, cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  return api_call([&](Runtime& runtime) { return *count = runtime.settings.devices, cudaSuccess; });
}

cudaError_t cudaSetDevice(int device) {
  return api_call([&](Runtime& runtime) {
    if (device < 0 || device >= runtime.settings.devices) return cudaErrorInvalidDevice;
    return current_device() = device, cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call([&](Runtime&) { return *device = current_device(), cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call([&](Runtime& runtime) { return emulator::properties_of(runtime, properties, device); });
}

cudaError_t cudaDeviceSynchronize() {
  return api_call([](Runtime& runtime) {
    if (const cudaError_t error = emulator::check_unsafe(runtime); error != cudaSuccess) return error;
    runtime.wait_for_device(current_device());
    return runtime.take_fault(current_device());
  });
}
