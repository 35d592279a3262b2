// Calls about streams, events, launches and devices.

#include <algorithm>
#include <cstring>

#include "kernels/emulator/capture.h"
#include "kernels/emulator/execution.h"

namespace emulator {
namespace {

cudaError_t poll(Runtime& runtime, int& polls, const OpPointer& target) {
  if (!target || target->done) return cudaSuccess;
  if (++polls > runtime.settings.polls) {
    polls = 0;
    runtime.complete(target, 1);
  }
  return target->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t query_stream(Runtime& runtime, cudaStream_t handle) {
  StreamState* stream = runtime.stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_wait(runtime, *stream); error != cudaSuccess) return error;
  const cudaError_t status = poll(runtime, stream->polls, stream->last);
  return status == cudaSuccess ? runtime.wait_for_stream(*stream) : status;
}

cudaError_t query_event(Runtime& runtime, cudaEvent_t handle, bool wait) {
  const auto event = runtime.event(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  if (event->captured) {
    if (const auto capture = event->capture.lock()) capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  if (const cudaError_t error = check_unsafe(runtime); error != cudaSuccess) return error;
  if (!event->record) return cudaSuccess;
  if (wait) {
    runtime.complete(event->record);
  } else if (const cudaError_t status = poll(runtime, event->polls, event->record); status != cudaSuccess) {
    return status;
  }
  if (Observer* watcher = observer()) watcher->host_waits_for_event(event->id);
  return runtime.take_fault(event->device);
}

cudaError_t record(Runtime& runtime, cudaEvent_t handle, cudaStream_t stream_handle) {
  const auto event = runtime.event(handle);
  StreamState* stream = runtime.stream(stream_handle);
  if (!event || stream == nullptr || event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->legacy && implicit_capture(runtime, stream->device)) return cudaErrorStreamCaptureImplicit;
  if (stream->capture) return record_in_capture(*stream, event), capture_status(*stream);
  event->captured = false;
  event->polls = 0;
  event->record = runtime.enqueue(*stream, nullptr);
  if (Observer* watcher = observer()) watcher->event_recorded(event->id, stream->id);
  return cudaSuccess;
}

cudaError_t wait_event(Runtime& runtime, cudaStream_t stream_handle, cudaEvent_t handle) {
  const auto event = runtime.event(handle);
  StreamState* stream = runtime.stream(stream_handle);
  if (!event || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture || event->captured) return wait_in_capture(*stream, *event);
  if (!event->record) return cudaSuccess;
  if (!event->record->done) runtime.enqueue(*stream, nullptr, {event->record});
  if (Observer* watcher = observer()) watcher->stream_waits(stream->id, event->id);
  return cudaSuccess;
}

cudaError_t elapsed(Runtime& runtime, float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  const auto start = runtime.event(start_handle), end = runtime.event(end_handle);
  if (!start || !end || !start->timing || !end->timing) return cudaErrorInvalidResourceHandle;
  if (!start->record || !end->record) return cudaErrorInvalidResourceHandle;
  if (!start->record->done || !end->record->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->record->finished - start->record->finished).count();
  return cudaSuccess;
}

/// A stream that work can be launched on now.
cudaError_t find_launch_stream(Runtime& runtime, cudaStream_t handle, StreamState*& stream) {
  stream = runtime.stream(handle);
  return stream == nullptr || stream->device != current_device() ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

}  // namespace

cudaError_t Runtime::wait_for_stream(StreamState& stream) {
  const int device = stream.device;
  const uint64_t id = stream.id;
  complete_stream(stream);
  if (Observer* watcher = observer()) watcher->host_waits_for_stream(id);
  return take_fault(device);
}

void Runtime::wait_for_device(int device) {
  complete_device(device);
  Observer* watcher = observer();
  if (watcher == nullptr) return;
  const bool everything =
      std::all_of(streams.begin(), streams.end(),
                  [&](const auto& entry) { return entry.second->device == device || entry.second->enqueued == 0; }) &&
      std::all_of(devices.begin(), devices.end(),
                  [&](const auto& other) { return other->legacy.device == device || other->legacy.enqueued == 0; });
  if (everything) return watcher->host_waits_for_all();
  for (auto& [id, stream] : streams) {
    if (stream->device == device) watcher->host_waits_for_stream(id);
  }
  watcher->host_waits_for_stream(devices[static_cast<size_t>(device)]->legacy.id);
}

cudaError_t launch(std::string_view kernel, dim3 grid, dim3 block, cudaStream_t stream_handle,
                   std::function<void()> body, int64_t bytes) {
  return api_call([&](Runtime& runtime) {
    if (!valid_shape(grid, block)) {
      Observer* watcher = observer();
      if (watcher != nullptr) watcher->launch_refused({OperationKind::kernel, kernel, 0, grid, block, {}, {}});
      return cudaErrorInvalidConfiguration;
    }
    StreamState* stream = nullptr;
    if (const cudaError_t error = find_launch_stream(runtime, stream_handle, stream); error != cudaSuccess)
      return error;
    auto work = make_work(OperationKind::kernel, kernel, std::move(body));
    work->what.grid = grid;
    work->what.block = block;
    work->what.bytes = bytes;
    return runtime.submit(*stream, std::move(work));
  });
}

cudaError_t launch_library(std::string_view name, cudaStream_t stream_handle, std::vector<Span> reads,
                           std::vector<Span> writes, std::function<void()> body) {
  return api_call([&](Runtime& runtime) {
    StreamState* stream = nullptr;
    if (const cudaError_t error = find_launch_stream(runtime, stream_handle, stream); error != cudaSuccess)
      return error;
    auto work = make_work(OperationKind::library, name, std::move(body));
    work->what.reads = std::move(reads);
    work->what.writes = std::move(writes);
    return runtime.submit(*stream, std::move(work));
  });
}

}  // namespace emulator

using emulator::api_call;
using emulator::current_device;
using emulator::handle_id;
using emulator::make_handle;
using emulator::Runtime;

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api_call([&](Runtime& runtime) {
    emulator::StreamState* state = runtime.stream(stream);
    if (state == nullptr) return cudaErrorInvalidResourceHandle;
    return runtime.submit(*state, emulator::make_work(emulator::OperationKind::host_function, "cudaLaunchHostFunc",
                                                      [function, data] { function(data); }));
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api_call([&](Runtime& runtime) {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = make_handle<cudaStream_t>(runtime.create_stream(current_device(), flags == cudaStreamDefault)->id);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api_call([&](Runtime& runtime) {
    emulator::StreamState* state = runtime.stream(stream);
    if (state == nullptr || state->legacy) return cudaErrorInvalidResourceHandle;
    runtime.destroy_stream(*state);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api_call([&](Runtime& runtime) {
    emulator::StreamState* state = runtime.stream(stream);
    if (state == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = emulator::check_wait(runtime, *state);
    return error != cudaSuccess ? error : runtime.wait_for_stream(*state);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api_call([&](Runtime& runtime) { return emulator::query_stream(runtime, stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return api_call([&](Runtime& runtime) { return emulator::wait_event(runtime, stream, event); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api_call([&](Runtime& runtime) {
    auto state = std::make_shared<emulator::EventState>();
    state->id = ++runtime.ids;
    state->device = current_device();
    state->timing = (flags & cudaEventDisableTiming) == 0;
    runtime.events[state->id] = state;
    *event = make_handle<cudaEvent_t>(state->id);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_call([&](Runtime& runtime) {
    return runtime.events.erase(handle_id(event)) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) { return emulator::record(runtime, event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_call([&](Runtime& runtime) { return emulator::query_event(runtime, event, true); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_call([&](Runtime& runtime) { return emulator::query_event(runtime, event, false); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api_call([&](Runtime& runtime) { return emulator::elapsed(runtime, milliseconds, start, end); });
}
