#pragma once
// One step: forward and backward of the micro-batches of a global batch, and the update.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/optim/weight_average.h"
#include "engine/train/batch_source.h"
#include "engine/train/checkpoint.h"
#include "kernels/common/loss_scale.h"

namespace engine {

/// What a step did.
struct StepOutcome {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // of all parameters together, before clipping
  int64_t images = 0;
  bool applied = true;  // false where loss or gradients were not finite: no weight, statistic or counter has changed
  kernels::LossScale scaling{};  // behind it
  std::vector<int64_t> samples;
  Batch suspect;  // where not applied and most_skips were reached: the first micro-batch whose loss was not finite,
                  // else the last with pictures
};

/// When the outcome of a step is taken.
enum class Lateness {
  allowed,  // a few steps later, so that the host need not wait for a device that is busy
  none,     // as soon as it is there, and the host waits for it
};

struct TrainStepOptions {
  double label_smoothing = 0;
  double clip_grad_norm = 0;        // 0: off
  bool recorded = true;             // on accelerators: record a step's work once and replay it (a CUDA graph)
  double loss_scale = 1;            // gradients are multiplied by it until the update divides by it
  bool dynamic_loss_scale = false;  // it follows what happens (kernels/common/loss_scale.h)
  int32_t most_skips = 1;  // steps in a row that may not be applied; with the last one the run waits for take()
  std::optional<kernels::LossScale> scaling{};  // where it stands, in place of loss_scale

  kernels::LossScale first_scaling() const {
    return scaling.value_or(kernels::LossScale{.scale = static_cast<float>(loss_scale)});
  }
};

/// How a kind of device does it. Order: sum over micro-batches, unscale, finite test, clip by the global norm, update,
/// moving average. A global batch of any number of micro-batches gives the update of one big batch: each micro-batch's
/// loss is divided by the samples of the global batch. Running statistics move once per micro-batch.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual void add(const Batch& batch) = 0;
  virtual void end(double lr) = 0;
  virtual std::optional<StepOutcome> take(Lateness lateness) = 0;
  virtual bool forget_recorded() { return false; }
};

/// The steps of one training, on the device that the parameters are on.
class TrainStep {
 public:
  TrainStep(const TrainedParts& parts, const TrainStepOptions& options);

  /// Forward and backward of one micro-batch, whose tensors must stay as they are until the step's outcome was taken.
  void add(const Batch& batch) { runner_->add(batch); }
  /// Ends the step, perhaps before anything of it has run; `lr` is the update's.
  void end(double lr) { runner_->end(lr); }
  /// The outcomes of ended steps, in their order, each once; none where no step has one, or it may come later. After a
  /// step that was not applied weights, statistics, counters and optimizer stay as they are until the next call of a
  /// member; what was ended behind it is done from then on. With no outcome left to take, all of them, and the count of
  /// updates, are those of the last step.
  std::optional<StepOutcome> take(Lateness lateness) { return runner_->take(lateness); }
  /// end(), and the outcome of that step; others are dropped.
  StepOutcome finish(double lr);
  /// Gives the memory of recorded work back, between two steps; the next ones are recorded anew. Whether there was any.
  bool forget_recorded() { return runner_->forget_recorded(); }

 private:
  std::unique_ptr<StepRunner> runner_;
};

/// Whether all weights and running statistics are finite: an update by finite gradients can overflow.
bool weights_finite(const TrainedParts& parts);

/// Runs the batch forward once more and tells where values stop being finite: "layer1.0.bn2", "the loss", or
/// kInGradients where the forward pass is clean. Changes no statistics.
std::string first_nonfinite_layer(Module& model, const Batch& batch);
inline constexpr const char* kInGradients = "the gradients";

}  // namespace engine
