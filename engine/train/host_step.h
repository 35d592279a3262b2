#pragma once

#include "engine/train/train_step.h"

namespace engine {

/// Steps on the CPU.
class HostStep final : public StepRunner {
 public:
  HostStep(const TrainedParts& parts, const TrainStepOptions& options);
  void add(const Batch& batch) override;
  StepOutcome finish(double lr) override;

 private:
  void keep_buffers();
  void restore_buffers();

  TrainedParts parts_;
  TrainStepOptions options_;
  StepOutcome current_;
  bool suspect_found_ = false;
  bool started_ = false;
  std::vector<NamedTensor> buffers_;       // the model's
  std::vector<NamedTensor> kept_buffers_;  // as they were before the step
};

}  // namespace engine
