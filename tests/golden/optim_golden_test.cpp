// Update rules and learning-rate schedules against PyTorch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/optim/schedule.h"
#include "kernels/adam/adam.h"
#include "kernels/sgd/sgd.h"
#include "tests/support/golden.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using Json = nlohmann::json;

template <typename T>
struct State {
  std::vector<T> w, first, second;
};

template <typename T>
void update(const Json& variant, double lr, int64_t step, const std::vector<T>& grad, State<T>& state) {
  const Json& settings = variant.at("settings");
  const auto count = static_cast<int64_t>(state.w.size());
  const double weight_decay = settings.value("weight_decay", 0.0);
  if (variant.at("optimizer") == "sgd") {
    const double momentum = settings.value("momentum", 0.0);
    const kernels::Sgd spec{lr, momentum, weight_decay, settings.value("nesterov", false), step == 1, 1};
    kernels::sgd_step_cpu(spec, state.w.data(), grad.data(), momentum != 0 ? state.first.data() : nullptr, count);
    return;
  }
  kernels::Adam spec{
      .lr = lr, .weight_decay = weight_decay, .decoupled = variant["optimizer"] == "adamw", .step = step};
  if (settings.contains("betas")) {
    spec.beta1 = settings["betas"][0];
    spec.beta2 = settings["betas"][1];
  }
  spec.eps = settings.value("eps", spec.eps);
  kernels::adam_step_cpu(spec, state.w.data(), grad.data(), state.first.data(), state.second.data(), count);
}

template <typename T>
void check_variant(const GoldenFile& file, const Json& variant) {
  const std::string name = variant.at("name");
  SCOPED_TRACE(name);
  const size_t count = file.at("parameters").values.size();
  State<T> state{file.at("parameters").as<T>(), std::vector<T>(count), std::vector<T>(count)};
  const std::vector<T> gradients = file.at("gradients").as<T>();
  const std::vector<double>& truth = file.at(name + "/parameters").values;
  const auto factors = file.json().at("rate_factors").get<std::vector<double>>();
  const double tol = tolerance<T>(static_cast<int64_t>(factors.size()), OpClass::transcendental);
  // A parameter is a sum of steps that may be larger than itself.
  const double lr_at_most = variant.at("settings").at("lr");
  double scale = 1;
  for (const double gradient : file.at("gradients").values) scale = std::max(scale, lr_at_most * std::abs(gradient));
  for (size_t t = 0; t < factors.size(); ++t) {
    const auto row = [&](const auto& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(t * count);
      return std::vector(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    const double lr = variant.at("settings").at("lr").get<double>() * factors[t];
    update(variant, lr, static_cast<int64_t>(t) + 1, row(gradients), state);
    ExpectClose(state.w, row(truth), tol, "parameters after step " + std::to_string(t), scale);
  }
  for (const std::string slot : variant.at("slots")) {
    const std::vector<T>& got = slot == "exp_avg_sq" ? state.second : state.first;
    ExpectClose(got, file.at(name + "/" + slot).values, tol, slot);
  }
}

TEST(GoldenOptimizers, UpdateRules) {
  const GoldenFile file("optimizers");
  for (const Json& variant : file.json().at("variants")) {
    check_variant<double>(file, variant);
    check_variant<float>(file, variant);
  }
}

ScheduleConfig schedule_of(const Json& entry, int64_t steps_per_epoch) {
  ScheduleConfig config;
  config.lr_scheduler = entry.at("scheduler");
  config.lr_gamma = entry.value("gamma", config.lr_gamma);
  config.lr_min = entry.value("eta_min", 0.0);
  config.lr_step_size = entry.value("step_size", config.lr_step_size);
  config.lr_milestones = entry.value("milestones", std::vector<int64_t>{});
  config.lr_warmup_decay = entry.value("warmup_decay", config.lr_warmup_decay);
  (entry.at("unit") == "epoch" && steps_per_epoch > 1 ? config.lr_warmup_epochs : config.lr_warmup_steps) =
      entry.at("warmup");
  return config;
}

TEST(GoldenSchedules, RatesAtEachEpochsFirstStep) {
  const GoldenFile file("schedules");
  for (const Json& entry : file.json().at("cases")) {
    const int64_t steps_per_epoch = entry.at("unit") == "epoch" ? 7 : 1;
    const auto want = entry.at("rates").get<std::vector<double>>();
    const auto count = static_cast<int64_t>(want.size());
    const Schedule schedule(schedule_of(entry, steps_per_epoch), entry.at("base"), steps_per_epoch, count);
    std::vector<double> got;
    for (int64_t t = 0; t < count; ++t) got.push_back(schedule.at(t * steps_per_epoch));
    ExpectClose(got, want, tolerance<double>(count, OpClass::transcendental), entry.at("name").get<std::string>());
  }
}

}  // namespace
}  // namespace engine::testing
