#pragma once
// Streams, events, devices and what waits in them. Inside of the emulator only; emulator.h has what it promises.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/emulator.h"
#include "kernels/emulator/memory.h"
#include "kernels/emulator/observer.h"

namespace emulator {

struct StreamState;
struct Capture;

/// What an operation does. Graphs launch the same work many times.
struct Work {
  std::string name;
  Operation what;              // its name views the one above; its stream is filled in when it runs
  std::function<void()> body;  // a kernel's thread, else all of it
};

/// A place in a stream. Without work it only marks a point of it.
struct Op {
  std::shared_ptr<const Work> work;
  StreamState* stream = nullptr;
  uint64_t number = 0;
  std::vector<std::shared_ptr<Op>> after;  // on other streams
  bool done = false, running = false;
  std::chrono::steady_clock::time_point finished;
  std::shared_ptr<const void> keeps;  // until it is done
};
using OpPointer = std::shared_ptr<Op>;

struct StreamState {
  uint64_t id = 0;
  int device = 0;
  bool blocking = true, legacy = false;
  bool destroyed = false;  // no handle any more
  std::deque<OpPointer> queue;
  OpPointer last;
  int polls = 0;
  uint64_t enqueued = 0;     // operations so far
  uint64_t seen_legacy = 0;  // of the device's legacy stream, when this one last waited for it
  uint64_t seen_by_legacy = 0;
  std::shared_ptr<Capture> capture;
  int branch = 0;          // in the capture
  std::vector<int> tails;  // nodes that the next one comes after
};

struct EventState {
  uint64_t id = 0;
  int device = 0;
  bool timing = true;
  int polls = 0;
  OpPointer record;
  std::weak_ptr<Capture> capture;
  bool captured = false;  // last recorded in a capture
  std::vector<int> tails;
};

struct Device {
  std::unique_ptr<Arena> arena;
  StreamState legacy;
  cudaError_t fault = cudaSuccess;
  size_t malloc_bytes = 0, graph_bytes = 0;
  size_t pool_used = 0, pool_used_high = 0, pool_reserved = 0, pool_reserved_high = 0;
  uint64_t pool_threshold = 0;
  std::deque<std::pair<OpPointer, size_t>> frees;  // by the program, not yet run
  size_t deferred_bytes = 0;

  /// Whether the pool (or else cudaMalloc) may have that much more; gives up unused reserve for it.
  bool make_room(size_t bytes, bool pool, size_t limit);
  void use_pool(size_t bytes);
  /// What the pool does when the host waits.
  void trim(size_t keep);
};

struct GraphState;
struct GraphExecState;

class Runtime {
 public:
  static Runtime& get();
  Runtime();

  std::mutex mutex;
  std::condition_variable host_function_done;
  Settings settings;
  Counters counters;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Arena> pinned;
  std::map<uint64_t, std::shared_ptr<StreamState>> streams;  // destroyed ones as long as they hold operations
  std::unordered_map<uint64_t, std::shared_ptr<EventState>> events;
  std::unordered_map<uint64_t, std::shared_ptr<GraphState>> graphs;
  std::unordered_map<uint64_t, std::shared_ptr<GraphExecState>> executables;
  std::vector<std::weak_ptr<Capture>> captures;
  uint64_t ids = 0, operations = 0;  // of streams, events, graphs; of operations

  void reset_devices();
  /// Closes device memory to the host (host_guard.h), or opens it for good.
  void guard_devices(bool guarded);
  /// For the work that is about to run; close_devices() when the lock is given up.
  void open_devices();
  void close_devices();
  /// Null: unknown handle. nullptr is the current device's legacy stream.
  StreamState* stream(cudaStream_t handle);
  std::shared_ptr<EventState> event(cudaEvent_t handle);
  std::shared_ptr<StreamState> create_stream(int device, bool blocking);
  /// Takes its handle away; what it holds still runs.
  void destroy_stream(StreamState& stream);
  bool idle() const { return waiting_.empty(); }

  /// Puts an operation (without work: a mark) behind what the stream holds. Not for capturing streams.
  OpPointer enqueue(StreamState& stream, std::shared_ptr<const Work> work, std::vector<OpPointer> after = {});
  /// The same, or a node of the graph where the stream captures.
  cudaError_t submit(StreamState& stream, std::shared_ptr<const Work> work);
  /// Tells the observer that `later` waits for all of `earlier` so far.
  void tell_order(StreamState& earlier, StreamState& later);

  /// Runs what an operation needs, and it, at most `limit` operations.
  void complete(const OpPointer& target, uint64_t limit = UINT64_MAX);
  void complete_stream(StreamState& stream);
  void complete_device(int device);
  void complete_all();
  /// What a call on the legacy stream that blocks the host waits for.
  void complete_legacy(int device);
  /// The host waits, and the observer is told. wait_for_stream gives what take_fault does.
  cudaError_t wait_for_stream(StreamState& stream);
  void wait_for_device(int device);
  /// An operation of the host itself, at once.
  void run_on_host(const Work& work, int device);

  /// The device's fault, forgotten by that; looks at the guard zones before.
  cudaError_t take_fault(int device);
  Block* find_block(const void* address);

 private:
  void run_front(StreamState& stream);
  void execute(const Work& work, uint64_t number, uint64_t stream, Device& device);
  void call_host_function(const Work& work);
  cudaError_t run_work(const Work& work, uint64_t number);
  OpPointer pick(const OpPointer& target);
  void order_with_legacy(StreamState& stream, std::vector<OpPointer>& after);

  std::map<uint64_t, StreamState*> waiting_;  // streams with operations
  uint64_t random_ = 0;
  bool guarded_ = false;
};

/// The calling thread's device.
int& current_device();

/// Holds the runtime's lock. Throws std::logic_error where the thread has it already: in kernels and library work.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  Runtime& runtime() { return runtime_; }

 private:
  Runtime& runtime_;
  std::unique_lock<std::mutex> lock_;
};

/// Whether the calling thread runs a kernel, library work or a host function, and whether it holds the lock.
bool inside_work();
bool holds_lock();
cudaError_t remember(cudaError_t error);

/// A call of the API: body(runtime) under the lock. cudaErrorNotPermitted from host functions and kernels.
template <typename Body>
cudaError_t api_call(Body body) {
  if (inside_work()) return remember(cudaErrorNotPermitted);
  Entry entry;
  try {
    return remember(body(entry.runtime()));
  } catch (const std::bad_alloc&) {
    return remember(cudaErrorMemoryAllocation);
  }
}

template <typename Handle>
Handle make_handle(uint64_t id) {
  return reinterpret_cast<Handle>(id * 16);
}
template <typename Handle>
uint64_t handle_id(Handle handle) {
  return reinterpret_cast<uint64_t>(handle) / 16;
}

std::shared_ptr<Work> make_work(OperationKind kind, std::string_view name, std::function<void()> body);

}  // namespace emulator
