#include "engine/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/error.h"

namespace engine {

Schedule::Schedule(const ScheduleConfig& config, double lr, int64_t steps_per_epoch, int64_t epochs)
    : config_(config),
      lr_(lr),
      steps_per_epoch_(std::max<int64_t>(steps_per_epoch, 1)),
      total_steps_(steps_per_epoch_ * epochs),
      warmup_steps_(config.lr_warmup_epochs * steps_per_epoch_ + config.lr_warmup_steps) {
  const auto& names = scheduler_names();
  if (std::find(names.begin(), names.end(), config.lr_scheduler) == names.end()) {
    throw ConfigError(fmt::format("--lr-scheduler: got \"{}\", expected one of {}", escaped(config.lr_scheduler),
                                  fmt::join(names, ", ")));
  }
}

double Schedule::at(int64_t steps_done) const {
  if (steps_done < warmup_steps_) {
    const double share = static_cast<double>(steps_done) / static_cast<double>(warmup_steps_);
    return lr_ * (config_.lr_warmup_decay + (1 - config_.lr_warmup_decay) * share);
  }
  const int64_t steps = steps_done - warmup_steps_;
  const int64_t epoch = steps / steps_per_epoch_;
  if (config_.lr_scheduler == "step") {
    return lr_ * std::pow(config_.lr_gamma, static_cast<double>(epoch / config_.lr_step_size));
  }
  if (config_.lr_scheduler == "multistep") {
    const auto passed = std::count_if(config_.lr_milestones.begin(), config_.lr_milestones.end(),
                                      [&](int64_t milestone) { return epoch >= milestone; });
    return lr_ * std::pow(config_.lr_gamma, static_cast<double>(passed));
  }
  if (config_.lr_scheduler == "cosine") {
    const auto length = static_cast<double>(std::max<int64_t>(total_steps_ - warmup_steps_, 1));
    const double share = std::min(static_cast<double>(steps) / length, 1.0);
    return config_.lr_min + (lr_ - config_.lr_min) * (1 + std::cos(std::numbers::pi * share)) / 2;
  }
  return lr_;
}

const std::vector<std::string>& scheduler_names() {
  static const std::vector<std::string> names = {"constant", "step", "multistep", "cosine"};
  return names;
}

}  // namespace engine
