#include "engine/train/recomputation.h"

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/core/memory_shortage.h"
#include "engine/profile/recompute_plan.h"

namespace engine {
namespace {

/// Of what is free, the part that a plan may use: predictions are a few percent off.
constexpr double kUsedShare = 0.95;

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

/// What a run holds besides a step's own memory: what is live now, pictures that are read ahead, the copy of the
/// statistics for a step that is not applied.
int64_t bytes_besides(const RunParts& run, const TrainedParts& parts) {
  const Device device = parts.parameters->device();
  const int64_t statistics = parts.parameters->statistics().bytes();
  int64_t bytes = memory_stats(device).live_total + statistics;
  if (device.is_cpu()) {
    bytes += run.train->most_bytes() + (run.validation == nullptr ? 0 : run.validation->most_bytes());
  }
  return bytes;
}

void log_plan(const RecomputePlan& plan, int64_t budget) {
  if (plan.blocks.empty()) {
    log_info(
        "gradient checkpointing: auto: nothing is computed again: a predicted peak of {:.0f} MiB keeps the budget "
        "of {:.0f} MiB",
        mebibytes(plan.peak_bytes), mebibytes(budget));
    return;
  }
  log_info(
      "gradient checkpointing: auto: computes {} of {} blocks again, {:.0f} % more arithmetic: a predicted peak of "
      "{:.0f} MiB keeps the budget of {:.0f} MiB ({:.0f} MiB without, {:.0f} MiB with all): {}",
      plan.blocks.size(), plan.of, 100 * plan.extra_macs, mebibytes(plan.peak_bytes), mebibytes(budget),
      mebibytes(plan.plain_peak_bytes), mebibytes(plan.least_peak_bytes), fmt::join(plan.blocks, ", "));
}

void plan_for_budget(const TrainConfig& config, const RunParts& run, const TrainedParts& parts) {
  const Device device = parts.parameters->device();
  const auto given = memory_size(config.memory_budget);
  const int64_t budget = given ? *given : static_cast<int64_t>(kUsedShare * static_cast<double>(usable_memory(device)));
  RecomputeRequest request{run.picture, config.batch_size, budget, 0};
  request.other_bytes = bytes_besides(run, parts);
  const RecomputePlan plan = plan_recomputation(*parts.model, *parts.parameters, request);
  if (!plan.fits) {
    // Rounded up, so that the number can be given as it is said.
    const int64_t least = (plan.least_peak_bytes >> 20) + 1;
    throw OutOfMemoryError(
        fmt::format("out of memory: --memory-budget: got {:.0f} MiB, expected at least {} MiB at --batch-size {}, with "
                    "all {} blocks computed again",
                    mebibytes(budget), least, config.batch_size, plan.of),
        fmt::format("give --memory-budget {}MiB, or a smaller --batch-size with --accumulate-steps", least));
  }
  log_plan(plan, budget);
}

}  // namespace

void apply_gradient_checkpointing(const TrainConfig& config, const RunParts& run, const TrainedParts& parts) {
  if (config.gradient_checkpointing == "none") return;
  const auto blocks = parts.model->blocks();
  if (blocks.empty())
    log_warn("--gradient-checkpointing: {} has no blocks, so nothing is computed again", config.model);
  if (config.gradient_checkpointing == "auto") return plan_for_budget(config, run, parts);
  for (const auto& [name, block] : blocks) block->set_checkpointed(true);
  if (!blocks.empty()) log_info("gradient checkpointing: computes each of {} blocks again", blocks.size());
}

}  // namespace engine
