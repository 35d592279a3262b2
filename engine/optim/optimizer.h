#pragma once
// Optimizers over a model's flat parameters.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nn/flat_parameters.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/step_state.h"

namespace engine {

struct OptimizerConfig {
  std::string opt = "sgd";  // one of optimizer_names()
  double lr = 0.1;
  double momentum = 0.9;  // sgd, lars
  bool nesterov = false;  // sgd, lars
  double weight_decay = 1e-4;
  std::optional<double> norm_weight_decay;  // of batch-norm parameters; unset: weight_decay
  std::optional<double> bias_weight_decay;  // of biases; unset: weight_decay
  double clip_grad_norm = 0;                // 0: off
};

/// State that an optimizer keeps for each parameter, as a flat buffer.
struct OptimizerSlot {
  std::string name;  // "momentum", "exp_avg", "exp_avg_sq"
  Tensor buffer;
};

class DeviceChunks;  // optimizer.cpp

/// Definitions: kernels/sgd, kernels/adam, kernels/lars. LARS gives neither ratio nor decay to one-dimensional tensors
/// unless a decay of their own is set for them.
class Optimizer {
 public:
  virtual ~Optimizer();

  /// One update of all parameters from the flat gradients times grad_scale (unscaling and clipping).
  void step(double lr, double grad_scale);
  /// The same on an accelerator, in the order of its compute stream: learning rate, factor and whether the update is
  /// applied at all are read from `state`, in its memory, which decide_step_cuda (kernels/norm) has filled in.
  /// set_applied_steps() is the caller's to call when it learns what was applied.
  void step_on_device(const kernels::StepState* state);
  /// Updates that were applied: what Adam's bias correction counts.
  int64_t applied_steps() const { return applied_steps_; }
  void set_applied_steps(int64_t steps) { applied_steps_ = steps; }
  virtual std::vector<OptimizerSlot> slots() const = 0;
  /// How many parameters are decayed, for the log.
  int64_t decayed_tensors() const;

 protected:
  /// A run of parameters with one weight decay.
  struct Group {
    int64_t offset;
    int64_t count;
    double weight_decay;
    bool trust_ratio = false;  // LARS
  };

  Optimizer(FlatParameters& parameters, const OptimizerConfig& config);
  virtual void update(double lr, double grad_scale) = 0;
  virtual void update_region(const ParameterRegion& region, const kernels::StepState* state) = 0;
  /// Runs of a region's parameters that are updated alike: neighbours with equal decay, so that few calls cover the
  /// buffer; gaps stay zero under every update.
  virtual std::vector<Group> groups_of(const ParameterRegion& region) const;
  /// The same as kernels want them, offsets counted from the region's beginning.
  std::vector<kernels::ParameterSegment> segments_of(const ParameterRegion& region) const;
  const DeviceChunks& chunks_of(const ParameterRegion& region);
  cudaStream_t stream() const;
  /// On the CPU: calls f.operator()<G>(region, group) for each group, G the type of the region's gradients and, where
  /// it has 16 bits, of its compute copy. Defined in optimizer.cpp.
  template <typename F>
  void for_each_group(F&& f);
  double decay_of(const NamedTensor& parameter) const;

  FlatParameters& parameters_;
  OptimizerConfig config_;

 private:
  std::vector<std::vector<Group>> groups_;                   // of each region; on the CPU, from the first update on
  std::map<int64_t, std::shared_ptr<DeviceChunks>> chunks_;  // by the region's offset
  int64_t applied_steps_ = 0;
};

/// "sgd", "adam", "adamw", "lars"
const std::vector<std::string>& optimizer_names();

/// Throws ConfigError for a name that is not one of optimizer_names(). `parameters` must outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, FlatParameters& parameters);

}  // namespace engine
