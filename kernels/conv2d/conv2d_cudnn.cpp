#include <optional>

#include "kernels/common/cuda_error.h"
#include "kernels/common/cudnn_library.h"
#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_cudnn_graphs.h"
#include "kernels/conv2d/conv2d_cudnn_search.h"
#include "kernels/conv2d/conv2d_operands.h"
#include "kernels/conv2d/conv2d_plan_store.h"

namespace engine::kernels {
namespace {

struct Gpu {
  int sm_version;
  std::string name;
};

Gpu describe(int device) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {properties.major * 10 + properties.minor, properties.name};
}

int64_t first_that_builds(ConvGraph& graph, const ConvPlanKey& key) {
  for (int64_t i = 0; i < graph.candidates(); ++i) {
    if (graph.build(i)) return i;
  }
  throw LibraryError("cuDNN has no plan for " + key.str() + ": " + graph.failure());
}

/// The way of that name, if the library still has it and the options allow it.
std::optional<int64_t> named(ConvGraph& graph, const std::string& engine) {
  for (int64_t i = 0; i < graph.candidates(); ++i) {
    if (graph.name(i) == engine && graph.build(i)) return i;
  }
  return std::nullopt;
}

int64_t choose(ConvGraph& graph, const ConvPlanKey& key, int device, const Gpu& gpu, const ConvPlanOptions& options) {
  std::optional<ConvChoiceFile> file;
  if (!options.cache_folder.empty()) {
    file.emplace(options.cache_folder, gpu.name, "cudnn " + cudnn_version().loaded, key);
    const std::optional<std::string> engine = file->read();
    const std::optional<int64_t> known = engine ? named(graph, *engine) : std::nullopt;
    if (known) return *known;
  }
  if (!options.search) return first_that_builds(graph, key);
  const int64_t fastest = conv2d_fastest(graph, key, device);
  if (fastest < 0) return first_that_builds(graph, key);
  if (file) file->write(graph.name(fastest));
  return fastest;
}

class CudnnPlan final : public ConvPlan {
 public:
  CudnnPlan(int device, const ConvPlanKey& key, const ConvPlanOptions& options)
      : CudnnPlan(device, describe(device), key, options) {}
  int64_t workspace_bytes() const override { return graph_.workspace_bytes(choice_); }
  std::string engine() const override { return graph_.name(choice_); }

  void run(const ConvBuffers& buffers, void* workspace, cudaStream_t stream) const override {
    require_operands(key_, buffers);
    graph_.run(choice_, cudnn_handle(device_, stream), buffers, workspace);
  }

 private:
  CudnnPlan(int device, const Gpu& gpu, const ConvPlanKey& key, const ConvPlanOptions& options)
      : key_(key),
        device_(device),
        graph_(key, {.sm_version = gpu.sm_version, .handle = cudnn_handle(device, nullptr)}, options),
        choice_(choose(graph_, key, device, gpu, options)) {}

  ConvPlanKey key_;
  int device_;
  ConvGraph graph_;
  int64_t choice_;
};

}  // namespace

const ConvPlan& conv2d_plan(int device, const ConvPlanKey& key, const ConvPlanOptions& options) {
  static ConvPlanStore store;
  return store.get(device, key, [&] {
    require_plannable(key);
    return std::make_unique<CudnnPlan>(device, key, options);
  });
}

}  // namespace engine::kernels
