#include "engine/profile/recompute_plan.h"

#include <algorithm>
#include <limits>

#include "engine/profile/step_memory.h"

namespace engine {
namespace {

constexpr int64_t kParts = 1000;

/// The blocks of a model, and what each would save if the savings of all together were `saved_by_all`.
struct Blocks {
  std::vector<std::pair<std::string, Module*>> blocks;
  std::vector<RecomputeCandidate> candidates;
  int64_t macs_of_model = 0;

  Blocks(const Module& model, const Shape& picture) : blocks(model.blocks()), candidates(blocks.size()) {
    std::vector<LayerDescription> layers;
    model.describe("", picture, layers);
    for (const LayerDescription& layer : layers) macs_of_model += layer.macs;
    for (size_t i = 0; i < blocks.size(); ++i) {
      int64_t last = 0;
      for (const LayerDescription& layer : layers) {
        if (!layer.name.starts_with(blocks[i].first + ".")) continue;
        candidates[i].saved_bytes += layer.output_shape.numel();
        candidates[i].macs += layer.macs;
        last = layer.output_shape.numel();
      }
      candidates[i].saved_bytes -= last;  // a block's result stays
    }
  }

  void scale_savings(int64_t saved_by_all) {
    double values = 0;
    for (const RecomputeCandidate& candidate : candidates) values += static_cast<double>(candidate.saved_bytes);
    for (RecomputeCandidate& candidate : candidates) {
      candidate.saved_bytes =
          static_cast<int64_t>(static_cast<double>(candidate.saved_bytes) / values * static_cast<double>(saved_by_all));
    }
  }

  void choose(const std::vector<size_t>& chosen) {
    for (const auto& [name, block] : blocks) block->set_checkpointed(false);
    for (const size_t i : chosen) blocks[i].second->set_checkpointed(true);
  }
  std::vector<size_t> all() const {
    std::vector<size_t> indices(blocks.size());
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
    return indices;
  }
};

}  // namespace

std::vector<size_t> cheapest_to_recompute(const std::vector<RecomputeCandidate>& candidates, int64_t bytes) {
  if (bytes <= 0) return {};
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  // cost[i][p]: the least for the first i candidates to save p parts.
  std::vector<std::vector<int64_t>> cost(candidates.size() + 1, std::vector<int64_t>(kParts + 1, kNever));
  cost[0][0] = 0;
  const auto rest = [&](size_t i, int64_t parts) {
    const double share = static_cast<double>(candidates[i].saved_bytes) / static_cast<double>(bytes);
    return std::max<int64_t>(parts - static_cast<int64_t>(std::min(share, 1.0) * kParts), 0);
  };
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (int64_t parts = 0; parts <= kParts; ++parts) {
      const int64_t without = cost[i][static_cast<size_t>(parts)];
      const int64_t before = cost[i][static_cast<size_t>(rest(i, parts))];
      cost[i + 1][static_cast<size_t>(parts)] =
          std::min(without, before == kNever ? kNever : before + candidates[i].macs);
    }
  }
  std::vector<size_t> chosen;
  int64_t parts = kParts;
  const bool possible = cost.back()[kParts] != kNever;
  for (size_t i = candidates.size(); i-- > 0;) {
    if (possible && cost[i + 1][static_cast<size_t>(parts)] == cost[i][static_cast<size_t>(parts)]) continue;
    chosen.push_back(i);
    parts = rest(i, parts);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

RecomputePlan plan_recomputation(Module& model, FlatParameters& parameters, const RecomputeRequest& request) {
  Blocks blocks(model, request.picture);
  std::vector<size_t> chosen;
  blocks.choose(blocks.all());
  const int64_t besides = request.other_bytes + scratch_of_step(model, parameters, request.picture, request.batch);
  const auto peak_with = [&](const std::vector<size_t>& choice) {
    blocks.choose(choice);
    return besides + StepMemory::measure(model, parameters, request.picture).peak(request.batch);
  };
  RecomputePlan plan;
  plan.of = blocks.blocks.size();
  plan.peak_bytes = plan.plain_peak_bytes = plan.least_peak_bytes = peak_with({});
  if (plan.peak_bytes > request.budget_bytes && plan.of > 0) {
    plan.least_peak_bytes = peak_with(blocks.all());
    blocks.scale_savings(plan.plain_peak_bytes - plan.least_peak_bytes);
    // Savings do not quite add up: the moment of the peak moves. What is missing is asked for on top.
    int64_t wanted = plan.plain_peak_bytes - request.budget_bytes;
    while (plan.peak_bytes > request.budget_bytes && chosen.size() < plan.of) {
      chosen = cheapest_to_recompute(blocks.candidates, wanted);
      plan.peak_bytes = chosen.size() == plan.of ? plan.least_peak_bytes : peak_with(chosen);
      wanted += std::max(plan.peak_bytes - request.budget_bytes, wanted / 32 + 1);
    }
    blocks.choose(chosen);
  }
  plan.fits = plan.peak_bytes <= request.budget_bytes;
  int64_t again = 0;
  for (const size_t i : chosen) {
    plan.blocks.push_back(blocks.blocks[i].first);
    again += blocks.candidates[i].macs;
  }
  plan.extra_macs =
      static_cast<double>(again) / (3.0 * static_cast<double>(std::max<int64_t>(blocks.macs_of_model, 1)));
  return plan;
}

}  // namespace engine
