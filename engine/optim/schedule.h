#pragma once
// Learning rates by step.

#include <cstdint>
#include <string>
#include <vector>

namespace engine {

struct ScheduleConfig {
  std::string lr_scheduler = "step";   // constant, step, multistep, cosine
  int64_t lr_step_size = 30;           // epochs
  std::vector<int64_t> lr_milestones;  // epochs
  double lr_gamma = 0.1;
  double lr_min = 0;  // cosine
  int64_t lr_warmup_epochs = 0;
  int64_t lr_warmup_steps = 0;  // on top of the epochs
  double lr_warmup_decay = 0.01;
};

/// A function of the step alone, so that a resumed run goes on where it stopped. It counts global batches, applied or
/// skipped. At the first step of each epoch it has the values of torchvision's reference trainer: LinearLR from
/// lr * warmup_decay during warm-up, then StepLR, MultiStepLR or CosineAnnealingLR, which begin to count behind the
/// warm-up. Warm-up and cosine also move within an epoch; step and multistep change between epochs.
class Schedule {
 public:
  Schedule(const ScheduleConfig& config, double lr, int64_t steps_per_epoch, int64_t epochs);

  /// For the update that follows `steps_done` global batches.
  double at(int64_t steps_done) const;

 private:
  ScheduleConfig config_;
  double lr_;
  int64_t steps_per_epoch_;
  int64_t total_steps_;
  int64_t warmup_steps_;
};

const std::vector<std::string>& scheduler_names();

}  // namespace engine
