// Calls that capture, instantiate and launch graphs.

#include <algorithm>
#include <utility>

#include "kernels/emulator/capture.h"

namespace emulator {
namespace {

cudaError_t begin_capture(Runtime& runtime, cudaStream_t handle, cudaStreamCaptureMode mode) {
  StreamState* stream = runtime.stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream->id;
  capture->graph = std::make_shared<GraphState>(runtime, stream->device);
  capture->streams = {stream->id};
  stream->capture = capture;
  stream->branch = 0;
  stream->tails.clear();
  runtime.captures.push_back(capture);
  return cudaSuccess;
}

/// Whether everything that was captured comes before the end of the first stream.
bool joined(const GraphState& graph, const std::vector<int>& tails) {
  std::vector<char> reached(graph.nodes.size(), 0);
  for (const int node : tails) reached[static_cast<size_t>(node)] = 1;
  for (size_t node = graph.nodes.size(); node-- > 0;) {
    if (!reached[node]) return false;
    for (const int earlier : graph.nodes[node].after) reached[static_cast<size_t>(earlier)] = 1;
  }
  return true;
}

cudaError_t end_capture(Runtime& runtime, cudaStream_t handle, cudaGraph_t* out) {
  *out = nullptr;
  StreamState* stream = runtime.stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const auto capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream->id) return capture->invalid = true, cudaErrorStreamCaptureUnmatched;
  const bool other_thread = capture->thread != std::this_thread::get_id();
  if (other_thread && capture->mode != cudaStreamCaptureModeRelaxed) {
    return capture->invalid = true, cudaErrorStreamCaptureWrongThread;
  }
  const bool complete = joined(*capture->graph, stream->tails);
  for (const uint64_t id : capture->streams) {
    const auto found = runtime.streams.find(id);
    if (found == runtime.streams.end()) continue;
    found->second->capture.reset();
    found->second->tails.clear();
  }
  std::erase_if(runtime.captures, [&](const std::weak_ptr<Capture>& other) { return other.lock() == capture; });
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!complete) return cudaErrorStreamCaptureUnjoined;
  const uint64_t id = ++runtime.ids;
  runtime.graphs[id] = capture->graph;
  *out = make_handle<cudaGraph_t>(id);
  return cudaSuccess;
}

/// Puts the nodes on the streams of the branches: the first branch where the graph is launched, the others between two
/// marks there.
class Launch {
 public:
  Launch(Runtime& runtime, GraphExecState& executable, StreamState& stream)
      : runtime_(runtime), executable_(executable), graph_(*executable.graph), stream_(stream) {}

  void run() {
    std::vector<OpPointer> before;
    if (executable_.joined && !executable_.joined->done) before.push_back(executable_.joined);
    if (executable_.joined && executable_.joined->stream != &stream_) wait_for_last_launch();
    fork_ = runtime_.enqueue(stream_, nullptr, std::move(before));
    for (const auto& branch : executable_.branches) runtime_.tell_order(stream_, *branch);
    find_crossings();
    for (size_t node = 0; node < graph_.nodes.size(); ++node) add(node);
    std::vector<OpPointer> ends;
    for (const auto& branch : executable_.branches) {
      if (branch->last && !branch->last->done) ends.push_back(branch->last);
      runtime_.tell_order(*branch, stream_);
    }
    executable_.joined = runtime_.enqueue(stream_, nullptr, std::move(ends));
    executable_.joined->keeps = executable_.graph;
    executable_.last_stream = stream_.id;
  }

 private:
  void wait_for_last_launch() {
    const auto found = runtime_.streams.find(executable_.last_stream);
    if (found != runtime_.streams.end()) runtime_.tell_order(*found->second, stream_);
  }

  StreamState& branch(int number) {
    return number == 0 ? stream_ : *executable_.branches[static_cast<size_t>(number) - 1];
  }

  void find_crossings() {
    marks_.assign(graph_.nodes.size(), 0);
    ops_.resize(graph_.nodes.size());
    if (observer() == nullptr) return;
    for (const Node& node : graph_.nodes) {
      for (const int earlier : node.after) {
        const auto at = static_cast<size_t>(earlier);
        if (graph_.nodes[at].branch != node.branch && marks_[at] == 0) marks_[at] = ++runtime_.ids;
      }
    }
  }

  void add(size_t number) {
    const Node& node = graph_.nodes[number];
    StreamState& target = branch(node.branch);
    std::vector<OpPointer> after;
    if (node.branch != 0 && !fork_->done) after.push_back(fork_);
    for (const int earlier : node.after) {
      const auto at = static_cast<size_t>(earlier);
      if (graph_.nodes[at].branch == node.branch) continue;
      if (!ops_[at]->done) after.push_back(ops_[at]);
      if (Observer* watcher = observer()) watcher->stream_waits(target.id, marks_[at]);
    }
    ops_[number] = runtime_.enqueue(target, node.work, std::move(after));
    if (marks_[number] != 0) observer()->event_recorded(marks_[number], target.id);
  }

  Runtime& runtime_;
  GraphExecState& executable_;
  const GraphState& graph_;
  StreamState& stream_;
  OpPointer fork_;
  std::vector<OpPointer> ops_;
  std::vector<uint64_t> marks_;  // events at nodes that other branches wait for
};

cudaError_t launch_graph(Runtime& runtime, cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const auto found = runtime.executables.find(handle_id(handle));
  StreamState* stream = runtime.stream(stream_handle);
  if (found == runtime.executables.end() || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->device != found->second->graph->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return stream->capture->invalid = true, cudaErrorStreamCaptureUnsupported;
  if (stream->legacy && implicit_capture(runtime, stream->device)) return cudaErrorStreamCaptureImplicit;
  auto& memory = found->second->graph->memory;
  for (const GraphMemory& part : memory) {
    if (part.outstanding) return cudaErrorInvalidValue;
  }
  ++runtime.counters.graph_launches;
  Launch(runtime, *found->second, *stream).run();
  for (GraphMemory& part : memory) part.outstanding = !part.freed_inside;
  return cudaSuccess;
}

}  // namespace
}  // namespace emulator

using emulator::api_call;
using emulator::handle_id;
using emulator::Runtime;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api_call([&](Runtime& runtime) { return emulator::begin_capture(runtime, stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api_call([&](Runtime& runtime) { return emulator::end_capture(runtime, stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api_call([&](Runtime& runtime) {
    const emulator::StreamState* state = runtime.stream(stream);
    if (state == nullptr) return cudaErrorInvalidResourceHandle;
    if (state->legacy && emulator::implicit_capture(runtime, state->device)) return cudaErrorStreamCaptureImplicit;
    *status = cudaStreamCaptureStatusNone;
    if (state->capture) {
      *status = state->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return api_call([&](Runtime& runtime) {
    const auto found = runtime.graphs.find(handle_id(graph));
    if (found == runtime.graphs.end() || flags != 0) return cudaErrorInvalidValue;
    auto state = std::make_shared<emulator::GraphExecState>();
    state->graph = found->second;
    for (int branch = 1; branch < state->graph->branches; ++branch) {
      state->branches.push_back(runtime.create_stream(state->graph->device, false));
    }
    const uint64_t id = ++runtime.ids;
    runtime.executables[id] = state;
    *executable = emulator::make_handle<cudaGraphExec_t>(id);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return api_call([&](Runtime& runtime) { return emulator::launch_graph(runtime, executable, stream); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call([&](Runtime& runtime) {
    return runtime.graphs.erase(handle_id(graph)) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api_call([&](Runtime& runtime) {
    const auto found = runtime.executables.find(handle_id(executable));
    if (found == runtime.executables.end()) return cudaErrorInvalidValue;
    for (const auto& branch : found->second->branches) runtime.destroy_stream(*branch);
    runtime.executables.erase(found);
    return cudaSuccess;
  });
}
