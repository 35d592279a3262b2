#include "engine/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/amp/precision.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/train/evaluation.h"
#include "engine/train/memory_advice.h"
#include "kernels/common/onednn.h"

namespace engine {
namespace {

/// With --on-nonfinite skip: so many steps in a row without an update end the run.
constexpr int64_t kMaxSkippedInARow = 50;
constexpr size_t kListedSamples = 8;

std::string listed(const std::vector<int64_t>& samples) {
  const size_t shown = std::min(samples.size(), kListedSamples);
  const std::span<const int64_t> first(samples.data(), shown);
  return fmt::format("{}{}", fmt::join(first, " "), shown < samples.size() ? " ..." : "");
}

/// NaN has a sign that says nothing.
double unsigned_nan(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

int64_t global_batch(const TrainConfig& config) { return config.batch_size * config.accumulate_steps; }

Precision precision_in_force(const TrainConfig& config) { return precision_of(config.precision).value(); }

TrainStepOptions step_options(const TrainConfig& config, const TrainProgress& progress) {
  TrainStepOptions options{.label_smoothing = config.label_smoothing,
                           .clip_grad_norm = config.optimizer.clip_grad_norm,
                           .recorded = !config.no_cuda_graph};
  if (!scales_loss(precision_in_force(config))) return options;
  options.most_skips = kernels::kMostSkipsInARow;
  options.dynamic_loss_scale = config.loss_scale == "dynamic";
  options.scaling = progress.scaling.value_or(kernels::LossScale{.scale = kernels::kInitialLossScale});
  if (const auto fixed = fixed_loss_scale(config.loss_scale)) options.scaling->scale = *fixed;
  return options;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const RunParts& run, const TrainedParts& parts, TrainProgress progress)
    : config_(config),
      run_(run),
      parts_(parts),
      progress_(progress),
      identity_{config.model, run.classes, run.values, config.seed},
      steps_per_epoch_(run.train->steps_per_epoch()),
      schedule_(config.schedule, config.optimizer.lr, steps_per_epoch_, config.epochs),
      checkpoints_(config.output.output_dir),
      metrics_(config.output.output_dir, progress.step),
      scales_loss_(engine::scales_loss(precision_in_force(config))),
      step_(parts, step_options(config, progress)),
      begun_step_(progress.step),
      first_step_(progress.step) {
  run.train->allow_bytes(!parts.parameters->device().is_cpu());
  const std::vector<int64_t> saved = checkpoints_.steps();
  if (std::find(saved.begin(), saved.end(), progress_.step) != saved.end()) saved_step_ = progress_.step;
}

RunResult Trainer::run() {
  try {
    return run_epochs();
  } catch (const OutOfMemoryError& error) {
    step_.forget_recorded();
    throw explained(error, {.config = config_,
                            .parts = parts_,
                            .batch = last_batch_,
                            .step = progress_.step + 1,
                            .fitted = progress_.step - first_step_});
  }
}

RunResult Trainer::run_epochs() {
  // The CPU's memory is one for all, and training takes more of it.
  if (run_.validation != nullptr && !parts_.parameters->device().is_cpu()) {
    try_evaluation(*parts_.model, *run_.validation, last_batch_);
  }
  EpochEnd end = EpochEnd::finished;
  while (end == EpochEnd::finished && progress_.epoch < config_.epochs && !reached_step_limit()) end = run_epoch();
  if (saved_step_ != progress_.step && progress_.step > 0) save(false);
  RunResult result;
  result.epochs = progress_.epoch;
  result.steps = progress_.step;
  result.val_top1 = progress_.last_top1.value_or(std::numeric_limits<double>::quiet_NaN());
  result.stopped_by = stop_signal();
  return result;
}

Trainer::EpochEnd Trainer::run_epoch() {
  run_.train->start(progress_.epoch, progress_.epoch_position);
  throughput_.restart(run_.train->wait_seconds());
  begun_position_ = progress_.epoch_position;
  while (begin_step()) {
    take_outcomes(begun_steps_are_awaited() ? Lateness::none : Lateness::allowed);
    if (!reached_step_limit() && stop_signal() == 0) continue;
    take_outcomes(Lateness::none);
    // A limit that falls on the epoch's last step still ends the epoch.
    if (stop_signal() != 0 || run_.train->next()) return EpochEnd::stopped;
    break;
  }
  take_outcomes(Lateness::none);
  const bool evaluated = evaluate();
  if (!evaluated && stop_signal() != 0) return EpochEnd::stopped;
  finish_epoch(evaluated);
  return stop_signal() != 0 ? EpochEnd::stopped : EpochEnd::finished;
}

bool Trainer::begin_step() {
  bool pictures = false;
  try {
    while (auto batch = run_.train->next()) {
      if (!batch->samples.empty()) last_batch_ = batch->images.shape();
      pictures = pictures || !batch->samples.empty();
      step_.add(*batch);
      if (!batch->last_of_step) continue;
      const double lr = schedule_.at(schedule_position(begun_position_));
      step_.end(lr);
      begun_position_ = run_.train->position();
      begun_.push_back({lr, begun_position_});
      if (pictures) ++begun_step_;
      return true;
    }
  } catch (const std::exception&) {
    take_outcomes(Lateness::none);  // of what was done before
    throw;
  }
  return false;
}

bool Trainer::begun_steps_are_awaited() const {
  const int64_t every = config_.output.save_every_steps;
  return stop_signal() != 0 || begun_step_ == config_.steps || (every > 0 && begun_step_ % every == 0);
}

void Trainer::take_outcomes(Lateness lateness) {
  while (const auto outcome = step_.take(lateness)) {
    const BegunStep begun = begun_.front();
    begun_.pop_front();
    progress_.epoch_position = begun.position;
    if (outcome->images > 0) after_step(*outcome, begun.lr);  // else each of its pictures was skipped
  }
}

void Trainer::after_step(const StepOutcome& outcome, double lr) {
  if (!outcome.applied) handle_not_applied(outcome, lr);
  progress_.skipped_in_a_row = outcome.applied ? 0 : progress_.skipped_in_a_row + 1;
  if (scales_loss_) progress_.scaling = outcome.scaling;
  ++progress_.step;
  throughput_.add(outcome.images);
  throughput_.count_step();
  report_step(outcome, lr);
  const int64_t every = config_.output.save_every_steps;
  const bool ends = reached_step_limit() || stop_signal() != 0;
  if (every > 0 && progress_.step % every == 0 && !ends) {
    save(false);
    throughput_.restart(run_.train->wait_seconds());
  }
}

void Trainer::handle_overflow(const StepOutcome& outcome, double lr) {
  const kernels::LossScale& scaling = outcome.scaling;
  const std::string what = fmt::format("step {}: got loss {}, gradient norm {}, learning rate {}", progress_.step + 1,
                                       unsigned_nan(outcome.loss), unsigned_nan(outcome.grad_norm), lr);
  if (scaling.skipped_in_a_row < kernels::kMostSkipsInARow) {
    log_info("step skipped: {}, expected finite values; {} in all; the loss scale is now {}", what, scaling.skipped,
             scaling.scale);
    return;
  }
  if (saved_step_ != progress_.step && progress_.step > 0 && weights_finite(parts_)) save(false);
  throw TrainingError(
      fmt::format("too many skipped steps: {}, first in {}, samples {}, expected finite values; {} steps in a row were "
                  "skipped, {} in all, the last at a loss scale of {}",
                  what, first_nonfinite_layer(*parts_.model, outcome.suspect), listed(outcome.samples),
                  scaling.skipped_in_a_row, scaling.skipped, scaling.scale),
      config_.loss_scale == "dynamic"
          ? "lower --lr, or train in --precision bf16; the last finite state is in the output "
            "folder"
          : "give a smaller --loss-scale, or dynamic");
}

void Trainer::handle_not_applied(const StepOutcome& outcome, double lr) {
  if (scales_loss_) return handle_overflow(outcome, lr);
  const bool stop = config_.on_nonfinite == "stop";
  const bool too_many = progress_.skipped_in_a_row + 1 >= kMaxSkippedInARow;
  const std::string what = fmt::format(
      "step {}: got loss {}, gradient norm {}, learning rate {}, first in {}, samples {}, expected finite "
      "values",
      progress_.step + 1, unsigned_nan(outcome.loss), unsigned_nan(outcome.grad_norm), lr,
      first_nonfinite_layer(*parts_.model, outcome.suspect), listed(outcome.samples));
  if (!stop && !too_many) {
    log_warn("step skipped: {}", what);
    return;
  }
  if (saved_step_ != progress_.step && progress_.step > 0 && weights_finite(parts_)) save(false);
  throw TrainingError(fmt::format("loss not finite: {}", what),
                      stop ? "lower --lr or add --lr-warmup-epochs; the last finite state is in the output folder"
                           : fmt::format("{} steps in a row were skipped", kMaxSkippedInARow));
}

void Trainer::report_step(const StepOutcome& outcome, double lr) {
  const bool logged = progress_.step % config_.output.log_every == 0;
  const Throughput::Rates rates = throughput_.rates(run_.train->wait_seconds());
  StepReport report;
  report.step = progress_.step;
  report.total_steps = total_steps();
  report.epoch = progress_.epoch;
  report.total_epochs = config_.epochs;
  report.steps_per_epoch = steps_per_epoch_;
  report.epoch_step = (progress_.epoch_position + global_batch(config_) - 1) / global_batch(config_);
  report.loss = outcome.loss;
  report.lr = lr;
  report.grad_norm = outcome.grad_norm;
  report.images_per_second = rates.images_per_second;
  report.data_wait_fraction = rates.data_wait_fraction;
  const Device device = parts_.parameters->device();
  report.peak_memory_bytes = memory_stats(device).peak_total + (device.is_cpu() ? kernels::onednn_scratch_bytes() : 0);
  if (scales_loss_) {
    report.loss_scale = outcome.scaling.scale;
    report.skipped_steps = outcome.scaling.skipped;
  }
  report.seconds_left =
      throughput_.seconds_per_step() * static_cast<double>(std::max<int64_t>(report.total_steps - report.step, 0));
  if (logged) {
    metrics_.write_step(report);
    throughput_.restart(run_.train->wait_seconds());
  }
  if (run_.progress != nullptr) run_.progress->on_step(report, logged);
}

std::optional<EvalReport> Trainer::measure() {
  const EvaluationOptions options{run_.progress, [this] { return stop_signal() != 0; }};
  try {
    return evaluate_model(*parts_.model, *run_.validation, options);
  } catch (const OutOfMemoryError&) {
    if (!step_.forget_recorded()) throw;
  }
  return evaluate_model(*parts_.model, *run_.validation, options);
}

bool Trainer::evaluate() {
  if (run_.validation == nullptr) return false;
  const auto measured = measure();
  if (!measured) return false;
  std::optional<AverageReport> average;
  if (parts_.average != nullptr) {
    parts_.average->swap_with_model();
    const auto of_average = measure();
    parts_.average->swap_with_model();
    if (!of_average) return false;
    average = AverageReport{of_average->val_loss, of_average->val_top1, of_average->val_top5};
  }
  EvalReport report = *measured;
  report.step = progress_.step;
  report.epoch = progress_.epoch;
  metrics_.write_eval(report, average ? &*average : nullptr);
  if (run_.progress != nullptr) run_.progress->on_eval(report);
  progress_.last_top1 = report.val_top1;
  new_best_ = !progress_.best_top1 || report.val_top1 > *progress_.best_top1;  // of equal ones the first is the best
  if (new_best_) {
    progress_.best_top1 = report.val_top1;
    progress_.best_step = progress_.step;
  }
  return true;
}

void Trainer::finish_epoch(bool evaluated) {
  if (config_.output.histograms) metrics_.write_histograms(progress_.step, *parts_.parameters);
  ++progress_.epoch;
  progress_.epoch_position = 0;
  const int64_t every = config_.output.save_every_epochs;
  const bool is_best = evaluated && new_best_;
  const bool last = progress_.epoch == config_.epochs || reached_step_limit();
  if (is_best || last || (every > 0 && progress_.epoch % every == 0)) save(is_best);
  new_best_ = false;
}

void Trainer::save(bool is_best) {
  if (!weights_finite(parts_)) {
    throw TrainingError(
        fmt::format("weights not finite: step {}: got an overflow in the update, expected finite weights",
                    progress_.step),
        "lower --lr or add --lr-warmup-epochs; the last finite state is in the output folder");
  }
  checkpoints_.add(progress_.step, is_best, config_.output.keep_last,
                   [&](const std::filesystem::path& path) { save_checkpoint(path, parts_, progress_, identity_); });
  saved_step_ = progress_.step;
}

int64_t Trainer::total_steps() const {
  const int64_t left_in_run = steps_per_epoch_ * config_.epochs - schedule_position(progress_.epoch_position);
  const int64_t total = progress_.step + left_in_run;
  return config_.steps > 0 ? std::min(config_.steps, total) : total;
}

int64_t Trainer::schedule_position(int64_t epoch_position) const {
  const int64_t batch = global_batch(config_);
  const int64_t in_epoch = std::min((epoch_position + batch - 1) / batch, steps_per_epoch_);
  return progress_.epoch * steps_per_epoch_ + in_epoch;
}

}  // namespace engine
