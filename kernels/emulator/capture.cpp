#include "kernels/emulator/capture.h"

#include <algorithm>

#include "kernels/emulator/poison.h"

namespace emulator {
namespace {

cudaError_t invalidate(const std::shared_ptr<Capture>& capture, cudaError_t error) {
  if (capture) capture->invalid = true;
  return error;
}

void join_tails(std::vector<int>& tails, const std::vector<int>& more) {
  for (const int node : more) {
    if (std::find(tails.begin(), tails.end(), node) == tails.end()) tails.push_back(node);
  }
}

Device& device_of(Runtime& runtime, int device) { return *runtime.devices[static_cast<size_t>(device)]; }

std::shared_ptr<Work> memory_work(OperationKind kind, const Allocation& memory) {
  const char* name = kind == OperationKind::allocation ? "cudaMallocAsync" : "cudaFreeAsync";
  auto work = make_work(kind, name, [memory] { poison(memory.base, memory.bytes); });
  work->what.writes = {{memory.base, memory.bytes}};
  return work;
}

}  // namespace

GraphState::~GraphState() {
  Device& owner = device_of(runtime, device);
  for (const GraphMemory& part : memory) {
    if (Observer* watcher = observer()) watcher->freed(part.block->allocation, 0);
    owner.arena->release(*part.block);
  }
  owner.graph_bytes -= peak_bytes;
}

cudaError_t check_unsafe(Runtime& runtime) {
  bool forbidden = false;
  std::erase_if(runtime.captures, [](const std::weak_ptr<Capture>& capture) { return capture.expired(); });
  for (const auto& weak : runtime.captures) {
    const auto capture = weak.lock();
    const bool mine = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeGlobal || (capture->mode == cudaStreamCaptureModeThreadLocal && mine)) {
      capture->invalid = true;
      forbidden = true;
    }
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t check_wait(Runtime& runtime, StreamState& stream) {
  if (stream.capture) return invalidate(stream.capture, cudaErrorStreamCaptureUnsupported);
  if (stream.legacy && implicit_capture(runtime, stream.device)) return cudaErrorStreamCaptureImplicit;
  return check_unsafe(runtime);
}

bool implicit_capture(Runtime& runtime, int device) {
  bool found = false;
  if (runtime.captures.empty()) return false;
  for (auto& [id, stream] : runtime.streams) {
    if (stream->capture && stream->blocking && stream->device == device) {
      stream->capture->invalid = true;
      found = true;
    }
  }
  return found;
}

void add_node(StreamState& stream, std::shared_ptr<const Work> work) {
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(work), stream.tails, stream.branch});
  stream.tails = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t capture_status(const StreamState& stream) {
  return stream.capture && stream.capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

void record_in_capture(StreamState& stream, const std::shared_ptr<EventState>& event) {
  event->captured = true;
  event->capture = stream.capture;
  event->tails = stream.tails;
  event->record.reset();
}

cudaError_t wait_in_capture(StreamState& stream, const EventState& event) {
  const auto from = event.capture.lock();
  if (!event.captured) {
    if (!event.record) return capture_status(stream);
    return invalidate(stream.capture, cudaErrorStreamCaptureIsolation);
  }
  if (!from) return invalidate(stream.capture, cudaErrorCapturedEvent);
  if (!stream.capture) {
    if (stream.legacy) return invalidate(from, cudaErrorStreamCaptureImplicit);
    stream.capture = from;
    stream.branch = from->graph->branches++;
    stream.tails = event.tails;
    from->streams.push_back(stream.id);
  } else if (stream.capture != from) {
    invalidate(from, cudaErrorStreamCaptureMerge);
    return invalidate(stream.capture, cudaErrorStreamCaptureMerge);
  } else {
    join_tails(stream.tails, event.tails);
  }
  return capture_status(stream);
}

cudaError_t allocate_in_capture(Runtime& runtime, StreamState& stream, void** pointer, size_t bytes) {
  GraphState& graph = *stream.capture->graph;
  Device& device = device_of(runtime, graph.device);
  const size_t live = graph.live_bytes + bytes;
  const size_t more = live > graph.peak_bytes ? live - graph.peak_bytes : 0;
  if (!device.make_room(more, false, runtime.settings.memory_bytes)) return cudaErrorMemoryAllocation;
  Block* block = device.arena->allocate(bytes);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  block->in_graph = true;
  device.graph_bytes += more;
  graph.live_bytes = live;
  graph.peak_bytes += more;
  graph.memory.push_back({block, false, false});
  ++runtime.counters.allocations;
  if (Observer* watcher = observer()) watcher->allocated(block->allocation, 0);
  add_node(stream, memory_work(OperationKind::allocation, block->allocation));
  *pointer = block->allocation.base;
  return capture_status(stream);
}

cudaError_t free_in_capture(StreamState& stream, void* pointer) {
  GraphState& graph = *stream.capture->graph;
  const auto found = std::find_if(graph.memory.begin(), graph.memory.end(), [&](const GraphMemory& part) {
    return part.block->allocation.base == pointer && !part.freed_inside;
  });
  if (found == graph.memory.end()) return invalidate(stream.capture, cudaErrorInvalidValue);
  found->freed_inside = true;
  graph.live_bytes -= found->block->allocation.bytes;
  add_node(stream, memory_work(OperationKind::release, found->block->allocation));
  return capture_status(stream);
}

GraphMemory* outstanding_memory(Runtime& runtime, const void* pointer) {
  const auto search = [&](GraphState& graph) -> GraphMemory* {
    for (GraphMemory& part : graph.memory) {
      if (part.block->allocation.base == pointer && part.outstanding) return &part;
    }
    return nullptr;
  };
  for (auto& [id, executable] : runtime.executables) {
    if (GraphMemory* found = search(*executable->graph)) return found;
  }
  for (auto& [id, graph] : runtime.graphs) {
    if (GraphMemory* found = search(*graph)) return found;
  }
  return nullptr;
}

}  // namespace emulator
