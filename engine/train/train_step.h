#pragma once
// One step: forward and backward of the micro-batches of a global batch, and the update.

#include <memory>
#include <string>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/optim/weight_average.h"
#include "engine/train/batch_source.h"
#include "engine/train/checkpoint.h"

namespace engine {

/// What a step did.
struct StepOutcome {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // of all parameters together, before clipping
  int64_t images = 0;
  bool applied = true;  // false where loss or gradients were not finite: no weight, statistic or counter has changed
  std::vector<int64_t> samples;
  Batch suspect;  // the first micro-batch whose loss was not finite, else the last that had pictures
};

struct TrainStepOptions {
  double label_smoothing = 0;
  double clip_grad_norm = 0;  // 0: off
  bool recorded = true;       // on accelerators: record a step's work once and replay it (a CUDA graph)
  double loss_scale = 1;      // on accelerators: gradients are multiplied by it until the update divides by it
};

/// How a kind of device does it. Order: sum over micro-batches, unscale, finite test, clip by the global norm, update,
/// moving average. A global batch of any number of micro-batches gives the update of one big batch: each micro-batch's
/// loss is divided by the samples of the global batch. Running statistics move once per micro-batch.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual void add(const Batch& batch) = 0;
  virtual StepOutcome finish(double lr) = 0;
};

/// The steps of one training, on the device that the parameters are on.
class TrainStep {
 public:
  TrainStep(const TrainedParts& parts, const TrainStepOptions& options);

  /// Forward and backward of one micro-batch.
  void add(const Batch& batch) { runner_->add(batch); }
  /// Ends the step; `lr` is the update's.
  StepOutcome finish(double lr) { return runner_->finish(lr); }

 private:
  std::unique_ptr<StepRunner> runner_;
};

/// Whether all weights and running statistics are finite: an update by finite gradients can overflow.
bool weights_finite(const TrainedParts& parts);

/// Runs the batch forward once more and tells where values stop being finite: "layer1.0.bn2", "the loss", or "the
/// gradients" where the forward pass is clean. Changes no statistics.
std::string first_nonfinite_layer(Module& model, const Batch& batch);

}  // namespace engine
