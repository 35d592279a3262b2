#include "kernels/emulator/runtime.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "kernels/emulator/block_run.h"
#include "kernels/emulator/capture.h"
#include "kernels/emulator/execution.h"

namespace emulator {
namespace {

thread_local bool working = false;
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::unique_lock<std::mutex>* entered = nullptr;

}  // namespace

bool inside_work() { return working; }
bool holds_lock() { return entered != nullptr; }

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

Entry::Entry() : runtime_(Runtime::get()), lock_(runtime_.mutex, std::defer_lock) {
  if (holds_lock()) throw std::logic_error("the emulator was called by its own work");
  lock_.lock();
  entered = &lock_;
  if (current_device() >= runtime_.settings.devices) current_device() = 0;
}
Entry::~Entry() {
  runtime_.close_devices();
  entered = nullptr;
}

std::shared_ptr<Work> make_work(OperationKind kind, std::string_view name, std::function<void()> body) {
  auto work = std::make_shared<Work>();
  work->name = name;
  work->what.kind = kind;
  work->what.name = work->name;
  work->body = std::move(body);
  return work;
}

Runtime& Runtime::get() {
  // Never destroyed: objects that live until the process ends may still give their memory back.
  static Runtime& runtime = *new Runtime();
  return runtime;
}

Runtime::Runtime() {
  pinned = std::make_unique<Arena>(-1, settings.quarantine_bytes);
  reset_devices();
}

void Runtime::reset_devices() {
  const auto count = static_cast<size_t>(settings.devices);
  while (devices.size() > count) devices.pop_back();
  while (devices.size() < count) {
    auto device = std::make_unique<Device>();
    const int ordinal = static_cast<int>(devices.size());
    device->arena = std::make_unique<Arena>(ordinal, settings.quarantine_bytes);
    device->legacy.id = ++ids;
    device->legacy.device = ordinal;
    device->legacy.legacy = true;
    devices.push_back(std::move(device));
  }
  for (auto& device : devices) {
    device->arena->set_quarantine(settings.quarantine_bytes);
    device->fault = cudaSuccess;
    device->arena->guard(guarded_);
  }
  pinned->set_quarantine(settings.quarantine_bytes);
  random_ = settings.schedule_seed;
}

void Runtime::guard_devices(bool guarded) {
  guarded_ = guarded;
  for (auto& device : devices) device->arena->guard(guarded);
}

void Runtime::open_devices() {
  if (!guarded_) return;
  for (auto& device : devices) device->arena->open();
}

void Runtime::close_devices() {
  if (!guarded_) return;
  for (auto& device : devices) device->arena->close();
}

StreamState* Runtime::stream(cudaStream_t handle) {
  if (handle == nullptr) return &devices[static_cast<size_t>(current_device())]->legacy;
  const auto found = streams.find(handle_id(handle));
  return found == streams.end() || found->second->destroyed ? nullptr : found->second.get();
}

std::shared_ptr<EventState> Runtime::event(cudaEvent_t handle) {
  const auto found = events.find(handle_id(handle));
  return found == events.end() ? nullptr : found->second;
}

std::shared_ptr<StreamState> Runtime::create_stream(int device, bool blocking) {
  auto stream = std::make_shared<StreamState>();
  stream->id = ++ids;
  stream->device = device;
  stream->blocking = blocking;
  streams[stream->id] = stream;
  return stream;
}

void Runtime::destroy_stream(StreamState& stream) {
  stream.destroyed = true;
  if (stream.capture) stream.capture->invalid = true;
  if (stream.queue.empty()) streams.erase(stream.id);
}

void Runtime::tell_order(StreamState& earlier, StreamState& later) {
  Observer* watcher = observer();
  if (watcher == nullptr) return;
  const uint64_t mark = ++ids;
  watcher->event_recorded(mark, earlier.id);
  watcher->stream_waits(later.id, mark);
}

void Runtime::order_with_legacy(StreamState& stream, std::vector<OpPointer>& after) {
  const auto order = [&](StreamState& earlier, uint64_t& seen) {
    if (earlier.enqueued == seen) return;
    seen = earlier.enqueued;
    if (earlier.last && !earlier.last->done) after.push_back(earlier.last);
    tell_order(earlier, stream);
  };
  if (!stream.blocking) return;
  if (!stream.legacy) return order(devices[static_cast<size_t>(stream.device)]->legacy, stream.seen_legacy);
  for (auto& [id, other] : streams) {
    if (other->blocking && other->device == stream.device) order(*other, other->seen_by_legacy);
  }
}

OpPointer Runtime::enqueue(StreamState& stream, std::shared_ptr<const Work> work, std::vector<OpPointer> after) {
  auto op = std::make_shared<Op>();
  op->work = std::move(work);
  op->stream = &stream;
  op->number = ++operations;
  op->after = std::move(after);
  order_with_legacy(stream, op->after);
  if (stream.queue.empty()) waiting_[stream.id] = &stream;
  stream.queue.push_back(op);
  stream.last = op;
  ++stream.enqueued;
  Observer* watcher = observer();
  if (op->work && watcher != nullptr) {
    watcher->enqueued(stream.id, op->number);
    watcher->will_run(op->number, op->work->what);
  }
  if (stream.queue.size() > settings.queue_limit) complete(stream.queue.front());
  return op;
}

cudaError_t Runtime::submit(StreamState& stream, std::shared_ptr<const Work> work) {
  if (stream.legacy && implicit_capture(*this, stream.device)) return cudaErrorStreamCaptureImplicit;
  if (stream.capture) return add_node(stream, std::move(work)), capture_status(stream);
  enqueue(stream, std::move(work));
  return cudaSuccess;
}

/// An operation that can run now and brings the target nearer (or, with a seed, any that can run); null where another
/// thread is running the one that all depends on.
OpPointer Runtime::pick(const OpPointer& target) {
  StreamState* stream = target->stream;
  if (settings.schedule_seed != 0 && waiting_.size() > 1) {
    auto chosen = waiting_.begin();
    std::advance(chosen, mix(random_) % waiting_.size());
    stream = chosen->second;
  }
  for (;;) {
    const OpPointer& front = stream->queue.front();
    if (front->running) return nullptr;
    const auto unmet = std::find_if(front->after.begin(), front->after.end(), [](const auto& op) { return !op->done; });
    if (unmet == front->after.end()) return front;
    stream = (*unmet)->stream;
  }
}

void Runtime::complete(const OpPointer& target, uint64_t limit) {
  const OpPointer kept = target;
  for (uint64_t runs = 0; !kept->done && runs < limit;) {
    const OpPointer op = pick(kept);
    if (op) {
      run_front(*op->stream);
      ++runs;
    } else {
      host_function_done.wait(*entered);
    }
  }
}

void Runtime::complete_stream(StreamState& stream) {
  if (!stream.queue.empty()) complete(stream.queue.back());
}

void Runtime::complete_device(int device) {
  for (;;) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const auto& entry) { return entry.second->device == device; });
    if (found == waiting_.end()) return;
    complete_stream(*found->second);
  }
}

void Runtime::complete_all() {
  while (!waiting_.empty()) complete_stream(*waiting_.begin()->second);
}

void Runtime::complete_legacy(int device) {
  Observer* watcher = observer();
  std::vector<std::shared_ptr<StreamState>> blocking;
  for (auto& [id, stream] : streams) {
    if (stream->blocking && stream->device == device) blocking.push_back(stream);
  }
  for (auto& stream : blocking) {
    complete_stream(*stream);
    if (watcher != nullptr && stream->enqueued > 0) watcher->host_waits_for_stream(stream->id);
  }
  StreamState& legacy = devices[static_cast<size_t>(device)]->legacy;
  complete_stream(legacy);
  if (watcher != nullptr && legacy.enqueued > 0) watcher->host_waits_for_stream(legacy.id);
}

void Runtime::run_front(StreamState& stream) {
  const OpPointer op = stream.queue.front();
  op->running = true;
  stream.polls = 0;
  if (op->work) execute(*op->work, op->number, stream.id, *devices[static_cast<size_t>(stream.device)]);
  op->finished = std::chrono::steady_clock::now();
  op->running = false;
  op->done = true;
  op->work.reset();
  op->after.clear();
  const std::shared_ptr<const void> released = std::move(op->keeps);
  stream.queue.pop_front();
  if (!stream.queue.empty()) return;
  waiting_.erase(stream.id);
  if (stream.destroyed) streams.erase(stream.id);
}

void Runtime::run_on_host(const Work& work, int device) {
  const uint64_t number = ++operations;
  if (Observer* watcher = observer()) watcher->enqueued(0, number);
  execute(work, number, 0, *devices[static_cast<size_t>(device)]);
}

void Runtime::execute(const Work& work, uint64_t number, uint64_t stream, Device& device) {
  const OperationKind kind = work.what.kind;
  const bool keeps_books = kind == OperationKind::allocation || kind == OperationKind::release;
  if (device.fault != cudaSuccess && !keeps_books) return;
  open_devices();
  Observer* watcher = observer();
  if (watcher != nullptr) {
    Operation what = work.what;
    what.stream = stream;
    watcher->begin_operation(number, what);
  }
  cudaError_t error = cudaSuccess;
  if (kind != OperationKind::host_function) error = run_work(work, number);
  if (watcher != nullptr) watcher->end_operation();
  if (kind == OperationKind::host_function) call_host_function(work);
  if (device.fault == cudaSuccess) device.fault = error;
}

cudaError_t Runtime::run_work(const Work& work, uint64_t number) {
  cudaError_t error = cudaSuccess;
  working = true;
  if (work.what.kind == OperationKind::kernel) {
    ++counters.kernels;
    uint64_t state = settings.schedule_seed + number;
    const uint64_t seed = settings.schedule_seed == 0 ? 0 : mix(state) | 1;
    error = run_kernel(work.name, {work.what.grid, work.what.block, &work.body, seed});
  } else if (work.body) {
    try {
      work.body();
    } catch (const std::exception& thrown) {
      std::fprintf(stderr, "emulator: %s: %s\n", work.name.c_str(), thrown.what());
      error = cudaErrorLaunchFailure;
    } catch (...) {
      error = cudaErrorLaunchFailure;
    }
  }
  working = false;
  switch (work.what.kind) {
    case OperationKind::library:
      ++counters.libraries;
      break;
    case OperationKind::copy:
      ++counters.copies;
      for (const Span& span : work.what.writes) counters.copied_bytes += span.bytes;
      break;
    case OperationKind::set:
      ++counters.sets;
      break;
    default:
      break;
  }
  return error;
}

/// Without the lock, so that it may wait for a thread that calls the runtime.
void Runtime::call_host_function(const Work& work) {
  ++counters.host_functions;
  close_devices();
  std::unique_lock<std::mutex>* lock = std::exchange(entered, nullptr);
  lock->unlock();
  working = true;
  work.body();
  working = false;
  lock->lock();
  entered = lock;
  host_function_done.notify_all();
}

Block* Runtime::find_block(const void* address) {
  for (auto& device : devices) {
    if (device->arena->contains(address)) return device->arena->find(address);
  }
  return pinned->find(address);
}

cudaError_t Runtime::take_fault(int device) {
  ++counters.host_waits;
  Device& state = *devices[static_cast<size_t>(device)];
  state.trim(state.pool_threshold);
  const bool broken = state.arena->broken_guards();
  if ((pinned->broken_guards() || broken) && state.fault == cudaSuccess) state.fault = cudaErrorIllegalAddress;
  return std::exchange(state.fault, cudaSuccess);
}

}  // namespace emulator

cudaError_t cudaGetLastError() { return std::exchange(emulator::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return emulator::last_error; }
