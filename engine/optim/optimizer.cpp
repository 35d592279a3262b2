#include "engine/optim/optimizer.h"

#include <cmath>
#include <functional>
#include <map>

#include "engine/core/error.h"
#include "kernels/adam/adam.h"
#include "kernels/lars/lars.h"
#include "kernels/norm/norm.h"
#include "kernels/sgd/sgd.h"

namespace engine {
namespace {

float* part_of(const Tensor& buffer, int64_t offset) {
  return buffer.defined() ? buffer.data<float>() + offset : nullptr;
}

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerConfig& config, FlatParameters& parameters) : Optimizer(parameters, config) {
    if (config.momentum != 0) momentum_ = parameters.like_master(MemoryCategory::optimizer);
  }

  std::vector<OptimizerSlot> slots() const override {
    return momentum_.defined() ? std::vector<OptimizerSlot>{{"momentum", momentum_}} : std::vector<OptimizerSlot>{};
  }

 protected:
  void update(double lr, double grad_scale) override {
    for (const Group& group : groups()) {
      const kernels::Sgd spec{lr,        config_.momentum, group.weight_decay, config_.nesterov, applied_steps() == 0,
                              grad_scale};
      kernels::sgd_step_cpu(spec, part_of(parameters_.master(), group.offset),
                            part_of(parameters_.gradients(), group.offset), part_of(momentum_, group.offset),
                            group.count);
    }
  }

 private:
  Tensor momentum_;
};

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const OptimizerConfig& config, FlatParameters& parameters)
      : Optimizer(parameters, config),
        exp_avg_(parameters.like_master(MemoryCategory::optimizer)),
        exp_avg_sq_(parameters.like_master(MemoryCategory::optimizer)) {}

  std::vector<OptimizerSlot> slots() const override { return {{"exp_avg", exp_avg_}, {"exp_avg_sq", exp_avg_sq_}}; }

 protected:
  void update(double lr, double grad_scale) override {
    kernels::Adam spec{
        .lr = lr, .decoupled = config_.opt == "adamw", .step = applied_steps() + 1, .grad_scale = grad_scale};
    for (const Group& group : groups()) {
      spec.weight_decay = group.weight_decay;
      kernels::adam_step_cpu(spec, part_of(parameters_.master(), group.offset),
                             part_of(parameters_.gradients(), group.offset), part_of(exp_avg_, group.offset),
                             part_of(exp_avg_sq_, group.offset), group.count);
    }
  }

 private:
  Tensor exp_avg_, exp_avg_sq_;
};

class LarsOptimizer final : public Optimizer {
 public:
  LarsOptimizer(const OptimizerConfig& config, FlatParameters& parameters) : Optimizer(parameters, config) {
    if (config.momentum != 0) momentum_ = parameters.like_master(MemoryCategory::optimizer);
  }

  std::vector<OptimizerSlot> slots() const override {
    return momentum_.defined() ? std::vector<OptimizerSlot>{{"momentum", momentum_}} : std::vector<OptimizerSlot>{};
  }

 protected:
  void update(double lr, double grad_scale) override {
    for (const FlatRange& range : parameters_.ranges()) {
      kernels::Lars spec{
          lr, config_.momentum, decay_of(range.parameter), config_.nesterov, applied_steps() == 0, grad_scale, 1.0};
      float* weights = part_of(parameters_.master(), range.offset);
      const float* gradient = part_of(parameters_.gradients(), range.offset);
      if (range.parameter.tensor.rank() > 1) {
        const double w_norm = std::sqrt(kernels::sum_of_squares_cpu(weights, range.count).value);
        const double grad_norm = std::sqrt(kernels::sum_of_squares_cpu(gradient, range.count).value) * grad_scale;
        spec.ratio = kernels::lars_ratio(w_norm, grad_norm, kTrust, spec.weight_decay);
      }
      kernels::lars_step_cpu(spec, weights, gradient, part_of(momentum_, range.offset), range.count);
    }
  }

 private:
  static constexpr double kTrust = 0.001;
  Tensor momentum_;
};

template <typename T>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, FlatParameters& parameters) {
  return std::make_unique<T>(config, parameters);
}

using Maker = std::unique_ptr<Optimizer> (*)(const OptimizerConfig&, FlatParameters&);

const std::vector<std::pair<std::string, Maker>>& registry() {
  static const std::vector<std::pair<std::string, Maker>> makers = {{"sgd", make<SgdOptimizer>},
                                                                    {"adam", make<AdamOptimizer>},
                                                                    {"adamw", make<AdamOptimizer>},
                                                                    {"lars", make<LarsOptimizer>}};
  return makers;
}

}  // namespace

Optimizer::Optimizer(FlatParameters& parameters, const OptimizerConfig& config)
    : parameters_(parameters), config_(config) {
  for (const FlatRange& range : parameters.ranges()) {
    const double decay = decay_of(range.parameter);
    if (!groups_.empty() && groups_.back().weight_decay == decay) {
      groups_.back().count = range.offset + range.count - groups_.back().offset;
    } else {
      groups_.push_back({range.offset, range.count, decay});
    }
  }
}

void Optimizer::step(double lr, double grad_scale) {
  update(lr, grad_scale);
  ++applied_steps_;
}

double Optimizer::decay_of(const NamedTensor& parameter) const {
  const double usual = config_.opt == "lars" && parameter.tensor.rank() == 1 ? 0 : config_.weight_decay;
  switch (parameter.kind) {
    case ParameterKind::norm:
      return config_.norm_weight_decay.value_or(usual);
    case ParameterKind::bias:
      return config_.bias_weight_decay.value_or(usual);
    case ParameterKind::weight:
      return config_.weight_decay;
  }
  throw Error("[optimizer] no such kind of parameter");
}

int64_t Optimizer::decayed_tensors() const {
  int64_t count = 0;
  for (const FlatRange& range : parameters_.ranges()) count += decay_of(range.parameter) != 0 ? 1 : 0;
  return count;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const auto& [name, maker] : registry()) found.push_back(name);
    return found;
  }();
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, FlatParameters& parameters) {
  for (const auto& [name, maker] : registry()) {
    if (name == config.opt) return maker(config, parameters);
  }
  throw ConfigError(
      fmt::format("--opt: got \"{}\", expected one of {}", escaped(config.opt), fmt::join(optimizer_names(), ", ")));
}

}  // namespace engine
