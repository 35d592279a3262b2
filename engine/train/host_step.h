#pragma once

#include <deque>

#include "engine/train/train_step.h"

namespace engine {

/// Steps on the CPU.
class HostStep final : public StepRunner {
 public:
  HostStep(const TrainedParts& parts, const TrainStepOptions& options);
  void add(const Batch& batch) override;
  void end(double lr) override;
  std::optional<StepOutcome> take(Lateness lateness) override;

 private:
  void keep_buffers();
  void restore_buffers();
  /// Whether the step is applied.
  bool update(double lr);

  TrainedParts parts_;
  TrainStepOptions options_;
  kernels::LossScale scaling_;
  StepOutcome current_;
  std::deque<StepOutcome> outcomes_;  // not taken yet
  bool suspect_found_ = false;
  bool started_ = false;
  std::vector<NamedTensor> buffers_;       // the model's
  std::vector<NamedTensor> kept_buffers_;  // as they were before the step
};

}  // namespace engine
