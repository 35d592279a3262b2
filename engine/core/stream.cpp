#include "engine/core/stream.h"

#include <map>
#include <mutex>

#include "engine/core/emulation.h"
#include "engine/core/error.h"
#include "kernels/common/cuda_error.h"

namespace engine {

using kernels::check_cuda;

namespace {

/// What a call that has waited for the device returned. A finding says more than the failure that it led to.
void check_wait(cudaError_t status, const char* call) {
  if constexpr (!kernels::kBuiltWithCuda) require_sound_kernels();
  check_cuda(status, call);
}

}  // namespace

Stream::Stream(Device device) : device_(device) {
  ENGINE_CHECK(!device.is_cpu(), "[stream] device: got cpu, expected one with streams");
  use_device(device);
  check_cuda(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() { cudaStreamDestroy(handle_); }

void Stream::synchronize() const { check_wait(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

void copy_async(void* target, const void* source, int64_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDefault, stream.handle()),
             "cudaMemcpyAsync");
}

Event::Event(Device device, bool timed) {
  use_device(device);
  check_cuda(cudaEventCreateWithFlags(&handle_, timed ? cudaEventDefault : cudaEventDisableTiming),
             "cudaEventCreateWithFlags");
}

Event::~Event() { cudaEventDestroy(handle_); }

void Event::record(const Stream& stream) { check_cuda(cudaEventRecord(handle_, stream.handle()), "cudaEventRecord"); }

void Event::hold(const Stream& stream) const {
  check_cuda(cudaStreamWaitEvent(stream.handle(), handle_, 0), "cudaStreamWaitEvent");
}

void Event::synchronize() const { check_wait(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }

float Event::milliseconds_since(const Event& earlier) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_), "cudaEventElapsedTime");
  return milliseconds;
}

RecordedWork::RecordedWork(const Stream& stream, const std::function<void()>& enqueue) {
  use_device(stream.device());
  check_cuda(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream.handle(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream.handle(), &graph), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&handle_, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "cudaGraphInstantiate");
}

RecordedWork::~RecordedWork() { cudaGraphExecDestroy(handle_); }

void RecordedWork::replay(const Stream& stream) const {
  check_cuda(cudaGraphLaunch(handle_, stream.handle()), "cudaGraphLaunch");
}

const Stream& compute_stream(Device device) {
  static std::mutex mutex;
  // Never destroyed: tensors in static objects may be freed on them late.
  static auto* streams = new std::map<int, std::unique_ptr<Stream>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Stream>& stream = (*streams)[device.index];
  if (!stream) stream = std::make_unique<Stream>(device);
  return *stream;
}

}  // namespace engine
