// Copies and fills.

#include <cstring>

#include "kernels/emulator/capture.h"

namespace emulator {
namespace {

enum class Side { pageable, pinned, device };

struct Copy {
  void* target;
  const void* source;
  size_t bytes;
  Side to = Side::pageable, from = Side::pageable;

  bool between_hosts() const { return to != Side::device && from != Side::device; }
};

/// False where emulated memory is meant, but no live allocation holds all of it.
bool find_side(Runtime& runtime, const void* address, size_t bytes, Side& side) {
  side = Side::pageable;
  bool emulated = runtime.pinned->contains(address);
  for (const auto& device : runtime.devices) emulated = emulated || device->arena->contains(address);
  if (!emulated) return true;
  const Block* block = runtime.find_block(address);
  if (block == nullptr || !block->live) return false;
  side = block->allocation.device < 0 ? Side::pinned : Side::device;
  const auto before = static_cast<size_t>(static_cast<const char*>(address) - block->allocation.base);
  return bytes <= block->allocation.bytes - before;
}

cudaError_t find_sides(Runtime& runtime, Copy& copy, cudaMemcpyKind kind) {
  if (copy.target == nullptr || copy.source == nullptr) return cudaErrorInvalidValue;
  if (!find_side(runtime, copy.target, copy.bytes, copy.to)) return cudaErrorInvalidValue;
  if (!find_side(runtime, copy.source, copy.bytes, copy.from)) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool right = to_device == (copy.to == Side::device) && from_device == (copy.from == Side::device);
  return right ? cudaSuccess : cudaErrorInvalidValue;
}

std::shared_ptr<Work> copy_work(const Copy& copy, std::shared_ptr<const std::vector<char>> staged) {
  auto work = make_work(OperationKind::copy, "cudaMemcpy", [copy, staged] {
    std::memmove(copy.target, staged ? staged->data() : copy.source, copy.bytes);
  });
  if (!staged) work->what.reads = {{copy.source, copy.bytes}};
  work->what.writes = {{copy.target, copy.bytes}};
  return work;
}

cudaError_t copy_in_stream(Runtime& runtime, Copy copy, cudaMemcpyKind kind, StreamState* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (copy.bytes == 0) return capture_status(*stream);
  if (const cudaError_t error = find_sides(runtime, copy, kind); error != cudaSuccess) return error;
  if (stream->capture) return runtime.submit(*stream, copy_work(copy, nullptr));
  std::shared_ptr<const std::vector<char>> staged;
  if (copy.from == Side::pageable && copy.to == Side::device) {
    const char* begin = static_cast<const char*>(copy.source);
    staged = std::make_shared<const std::vector<char>>(begin, begin + copy.bytes);
  }
  const cudaError_t error = runtime.submit(*stream, copy_work(copy, std::move(staged)));
  if (error != cudaSuccess) return error;
  const bool waits = copy.between_hosts() || (copy.to == Side::pageable && copy.from == Side::device);
  return waits ? runtime.wait_for_stream(*stream) : cudaSuccess;
}

cudaError_t copy_now(Runtime& runtime, Copy copy, cudaMemcpyKind kind) {
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  const int device = current_device();
  StreamState& legacy = *runtime.stream(nullptr);
  if (implicit_capture(runtime, device)) return cudaErrorStreamCaptureImplicit;
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t error = find_sides(runtime, copy, kind); error != cudaSuccess) return error;
  if (copy.from == Side::device && copy.to == Side::device) return runtime.submit(legacy, copy_work(copy, nullptr));
  runtime.complete_legacy(device);
  runtime.run_on_host(*copy_work(copy, nullptr), device);
  return runtime.take_fault(device);
}

cudaError_t set_in_stream(Runtime& runtime, const Span& target, int byte, StreamState* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (target.bytes == 0) return capture_status(*stream);
  Side side = Side::pageable;
  if (!find_side(runtime, target.pointer, target.bytes, side) || side == Side::pageable) return cudaErrorInvalidValue;
  auto* memory = static_cast<char*>(const_cast<void*>(target.pointer));
  auto work = make_work(OperationKind::set, "cudaMemset",
                        [memory, byte, bytes = target.bytes] { std::memset(memory, byte, bytes); });
  work->what.writes = {target};
  return runtime.submit(*stream, std::move(work));
}

}  // namespace
}  // namespace emulator

using emulator::api_call;
using emulator::Runtime;

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return api_call([&](Runtime& runtime) { return emulator::copy_now(runtime, {target, source, bytes}, kind); });
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) {
    return emulator::copy_in_stream(runtime, {target, source, bytes}, kind, runtime.stream(stream));
  });
}

cudaError_t cudaMemcpyPeerAsync(void* target, int target_device, const void* source, int source_device, size_t bytes,
                                cudaStream_t stream) {
  return api_call([&](Runtime& runtime) {
    const auto lies_on = [&](const void* address, int device) {
      const emulator::Block* block = runtime.find_block(address);
      return block != nullptr && block->allocation.device == device;
    };
    const int devices = runtime.settings.devices;
    if (target_device < 0 || target_device >= devices || source_device < 0 || source_device >= devices) {
      return cudaErrorInvalidDevice;
    }
    if (bytes > 0 && (!lies_on(target, target_device) || !lies_on(source, source_device))) return cudaErrorInvalidValue;
    return emulator::copy_in_stream(runtime, {target, source, bytes}, cudaMemcpyDeviceToDevice, runtime.stream(stream));
  });
}

cudaError_t cudaMemsetAsync(void* target, int byte, size_t bytes, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) {
    return emulator::set_in_stream(runtime, {target, bytes}, byte, runtime.stream(stream));
  });
}
