#include "engine/profile/gpu_plan.h"

#include <algorithm>
#include <map>

#include "engine/nn/flat_parameters.h"
#include "engine/profile/activation_memory.h"
#include "engine/profile/conv_network.h"
#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_planning.h"

namespace engine {
namespace {

using kernels::ConvDirection;

constexpr int64_t kAlignment = FlatParameters::kAlignment;
constexpr int64_t kOutsideBytes = int64_t{1} << 30;        // context, kernels, graphs
constexpr int64_t kOwnWorkspaceBytes = int64_t{32} << 20;  // what matrix products may use; other kernels need less
constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weights};

class Planner {
 public:
  Planner(const ModelOutline& model, const GpuPlanRequest& request)
      : model_(model),
        request_(request),
        target_{.sm_version = request.gpu.sm_version, .deterministic = request.deterministic, .policy = request.fusion},
        convs_(conv_network(model.layers)) {}

  GpuPlan plan() {
    GpuPlan result;
    visit(request_.batch, [&](const NetworkConv& conv, const kernels::ConvPlanKey& key, const Answer& answer) {
      const std::string fusion = conv_fusion_name(key.fusion);
      if (answer.reason.empty()) {
        result.plans.push_back({conv.name, key.direction, fusion, answer.plan.engine, answer.plan.workspace_bytes});
      } else {
        result.unplanned.push_back({conv.name, key.direction, fusion, answer.reason});
      }
    });
    result.memory = memory(request_.batch, workspace(request_.batch).bytes);
    result.fits = fits(request_.batch);
    result.largest_batch = largest_batch();
    return result;
  }

 private:
  struct Answer {
    kernels::PlannedConvolution plan;
    std::string reason;  // why there is no plan
  };
  struct Workspace {
    int64_t bytes = kOwnWorkspaceBytes;
    bool complete = true;  // every convolution has a plan
  };

  const Answer& answer(const kernels::ConvPlanKey& key) {
    const auto [found, fresh] = answers_.try_emplace(key.str());
    if (fresh) {
      try {
        found->second.plan = plan_convolution({request_.gpu.sm_version, request_.gpu.json}, key,
                                              {.deterministic = request_.deterministic, .cache_folder = {}});
      } catch (const kernels::LibraryError& error) {
        found->second.reason = error.what();
      }
    }
    return found->second;
  }

  template <typename F>
  void visit(int64_t batch, F&& f) {
    for (const NetworkConv& conv : convs_) {
      for (const ConvDirection direction : kDirections) {
        if (direction == ConvDirection::backward_data && conv.input == ConvInput::picture) continue;
        const kernels::ConvPlanKey key = training_key(conv, direction, batch, request_.type, target_);
        f(conv, key, answer(key));
      }
    }
  }

  Workspace workspace(int64_t batch) {
    Workspace result;
    visit(batch, [&](const NetworkConv&, const kernels::ConvPlanKey&, const Answer& answer) {
      result.bytes = std::max(result.bytes, answer.plan.workspace_bytes);
      result.complete = result.complete && answer.reason.empty();
    });
    result.complete = result.complete || kernels::cudnn_version().built.empty();
    return result;
  }

  PlannedMemory memory(int64_t batch, int64_t workspace_bytes) const {
    const int64_t copy = kernels::element_bytes(request_.type) == 2 ? 2 * model_.parameters : 0;
    return {.parameters = 4 * (model_.parameters + model_.statistics) + copy,
            .gradients = 4 * model_.parameters,
            .optimizer = 4 * model_.parameters * request_.optimizer_slots,
            .activations = activation_bytes(model_.layers, model_.input, batch, request_.type, target_),
            .workspace = workspace_bytes};
  }

  int64_t room() const { return usable_bytes(request_.gpu); }

  bool fits(int64_t batch) {
    const Workspace needed = workspace(batch);
    return needed.complete && memory(batch, needed.bytes).total() <= room();
  }

  /// The largest batch with this much workspace, whatever the library says.
  int64_t largest_with(int64_t workspace_bytes) const {
    const auto too_large = [&](int64_t batch) { return memory(batch, workspace_bytes).total() > room(); };
    int64_t below = 0, above = 1;
    while (!too_large(above)) above *= 2;
    while (above - below > 1) {
      const int64_t middle = below + (above - below) / 2;
      (too_large(middle) ? above : below) = middle;
    }
    return below;
  }

  /// Batch and workspace depend on each other: the workspace by rules that only the library knows, but little. So the
  /// two are computed from each other until they agree, which takes few and costly questions to the library. Bisection
  /// answers where they do not, as when the library has no plans for such a batch.
  int64_t largest_batch() {
    int64_t below = 0, above = largest_with(kOwnWorkspaceBytes) + 1;
    for (int64_t batch = above - 1; below < batch && batch < above;) {
      const Workspace needed = workspace(batch);
      const int64_t next = needed.complete ? largest_with(needed.bytes) : 0;
      if (next == batch) return batch;
      (next > batch ? below : above) = batch;
      batch = next;
    }
    while (above - below > 1) {
      const int64_t middle = below + (above - below) / 2;
      (fits(middle) ? below : above) = middle;
    }
    return below;
  }

  const ModelOutline& model_;
  const GpuPlanRequest& request_;
  kernels::FusionTarget target_;
  std::vector<NetworkConv> convs_;
  std::map<std::string, Answer> answers_;
};

}  // namespace

ModelOutline ModelOutline::of(const Module& model, const Shape& input) {
  ModelOutline outline{.layers = {}, .input = input};
  model.describe("", input, outline.layers);
  for (const NamedTensor& parameter : model.parameters()) {
    outline.parameters += (parameter.tensor.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (const NamedTensor& buffer : model.buffers()) outline.statistics += buffer.tensor.numel();
  return outline;
}

int64_t usable_bytes(const GpuDescription& gpu) { return std::max<int64_t>(gpu.memory_bytes - kOutsideBytes, 0); }

GpuPlan plan_for_gpu(const ModelOutline& model, const GpuPlanRequest& request) {
  kernels::cudnn_version();
  return Planner(model, request).plan();
}

}  // namespace engine
