#pragma once
// Graphs: what streams were told while they captured. Inside of the emulator only.

#include <memory>
#include <thread>
#include <vector>

#include "kernels/emulator/runtime.h"

namespace emulator {

struct Node {
  std::shared_ptr<const Work> work;
  std::vector<int> after;
  int branch = 0;  // which of the captured streams
};

struct GraphMemory {
  Block* block = nullptr;
  bool freed_inside = false;
  bool outstanding = false;  // a launch allocated it, and nobody freed it since
};

/// Gives its memory back when the last handle of a graph, its executables and their work are gone.
struct GraphState {
  GraphState(Runtime& runtime_, int device_) : runtime(runtime_), device(device_) {}
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  Runtime& runtime;
  int device;
  std::vector<Node> nodes;
  int branches = 1;
  std::vector<GraphMemory> memory;
  size_t live_bytes = 0, peak_bytes = 0;
};

struct GraphExecState {
  std::shared_ptr<GraphState> graph;
  std::vector<std::shared_ptr<StreamState>> branches;  // but the first, which runs where the graph is launched
  OpPointer joined;                                    // end of the last launch
  uint64_t last_stream = 0;                            // where that was
};

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  uint64_t origin;
  std::shared_ptr<GraphState> graph;
  std::vector<uint64_t> streams;
  bool invalid = false;
};

/// cudaErrorStreamCaptureUnsupported, and the capture invalidated, where the thread may not make an unsafe call.
cudaError_t check_unsafe(Runtime& runtime);
/// The same for a call that waits for one stream.
cudaError_t check_wait(Runtime& runtime, StreamState& stream);
/// Whether work on the legacy stream would wait for a stream that captures; invalidates the capture.
bool implicit_capture(Runtime& runtime, int device);

void add_node(StreamState& stream, std::shared_ptr<const Work> work);
/// cudaSuccess, or cudaErrorStreamCaptureInvalidated.
cudaError_t capture_status(const StreamState& stream);
void record_in_capture(StreamState& stream, const std::shared_ptr<EventState>& event);
/// A wait of a stream that captures, or for an event of a capture.
cudaError_t wait_in_capture(StreamState& stream, const EventState& event);

/// Memory of the graph that the stream captures.
cudaError_t allocate_in_capture(Runtime& runtime, StreamState& stream, void** pointer, size_t bytes);
cudaError_t free_in_capture(StreamState& stream, void* pointer);
/// Outside of a capture: memory that a launch of a graph left allocated. Null where it is none.
GraphMemory* outstanding_memory(Runtime& runtime, const void* pointer);

}  // namespace emulator
