#include "engine/app/option_checks.h"

#include <algorithm>

#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "kernels/common/loss_scale.h"
#include "models/registry.h"

namespace engine {
namespace {

/// Where a flag's value came from, for messages: the file or the command line.
std::string where(const GivenFlags& given, const std::string& name) {
  const auto value = given.find(name);
  return value == given.end() ? "command line: --" + name : value->second.where;
}

[[noreturn]] void refuse(const GivenFlags& given, const std::string& name, const std::string& got,
                         const std::string& expected, const std::string& hint = "") {
  throw ConfigError(fmt::format("{}: got {}, expected {}", where(given, name), got, expected), hint);
}

void check_data(const DataConfig& data, const GivenFlags& given) {
  const bool bundled = data.dataset == "samples" || data.dataset == "synthetic";
  if (bundled && !data.data_path.empty()) {
    refuse(given, "data-path", fmt::format("it beside --dataset {}", data.dataset),
           "a --dataset that is read from a folder");
  }
  if (!bundled && data.data_path.empty()) {
    refuse(given, "data-path", fmt::format("none for --dataset {}", data.dataset), "the folder of the data");
  }
}

void check_pictures(const Settings& settings, const GivenFlags& given, const models::ModelInfo& model) {
  const DataConfig& data = settings.run.data;
  const auto check_channels = [&](const char* name, const std::vector<float>& values) {
    if (values.empty() || static_cast<int64_t>(values.size()) == model.channels) return;
    refuse(given, name, fmt::format("{} numbers", values.size()),
           fmt::format("{}, one for each channel of {}'s pictures", model.channels, model.name));
  };
  check_channels("mean", data.mean);
  check_channels("std", data.std);
  if (model.fixed_size) {
    const auto check_size = [&](const char* name, int64_t size) {
      if (size != model.picture_size) {
        refuse(given, name, std::to_string(size), fmt::format("{}, which {} takes", model.picture_size, model.name));
      }
    };
    check_size("train-crop-size", data.train_crop_size);
    check_size("val-resize-size", data.val_resize_size);
    check_size("val-crop-size", data.val_crop_size);
  }
  if (data.val_crop_size > data.val_resize_size) {
    refuse(given, "val-crop-size", std::to_string(data.val_crop_size),
           fmt::format("at most --val-resize-size, {}", data.val_resize_size));
  }
}

void check_optimizer(const OptimizerConfig& optimizer, const GivenFlags& given) {
  if (!optimizer.nesterov) return;
  if (optimizer.opt != "sgd") refuse(given, "nesterov", fmt::format("it beside --opt {}", optimizer.opt), "--opt sgd");
  if (optimizer.momentum == 0) refuse(given, "nesterov", "it beside --momentum 0", "a momentum above 0");
}

void check_schedule(const TrainConfig& run, const GivenFlags& given) {
  const ScheduleConfig& schedule = run.schedule;
  const auto& milestones = schedule.lr_milestones;
  if (schedule.lr_scheduler == "multistep" && milestones.empty()) {
    refuse(given, "lr-milestones", "none beside --lr-scheduler multistep", "epochs, e.g. 30,60,80");
  }
  if (std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) != milestones.end()) {
    refuse(given, "lr-milestones", fmt::format("{}", fmt::join(milestones, ",")), "epochs in growing order");
  }
  if (schedule.lr_warmup_epochs > 0 && schedule.lr_warmup_steps > 0) {
    refuse(given, "lr-warmup-steps", "it beside --lr-warmup-epochs", "one of the two");
  }
  if (schedule.lr_scheduler == "cosine" && schedule.lr_min > run.optimizer.lr) {
    refuse(given, "lr-min", fmt::format("{}", schedule.lr_min), fmt::format("at most --lr, {}", run.optimizer.lr));
  }
}

void check_precision(const TrainConfig& run, const GivenFlags& given) {
  if (run.loss_scale != "dynamic" && !fixed_loss_scale(run.loss_scale)) {
    refuse(given, "loss-scale", fmt::format("\"{}\"", escaped(run.loss_scale)),
           fmt::format("dynamic, or a number from {} to {}", kernels::kLeastLossScale, kernels::kMostLossScale));
  }
  if (run.memory_budget.empty()) return;
  if (!memory_size(run.memory_budget)) {
    refuse(given, "memory-budget", fmt::format("\"{}\"", escaped(run.memory_budget)),
           "a size with its unit, such as 512MiB or 8GiB");
  }
  if (run.gradient_checkpointing != "auto") {
    refuse(given, "memory-budget", fmt::format("it beside --gradient-checkpointing {}", run.gradient_checkpointing),
           "--gradient-checkpointing auto");
  }
}

void check_training(const TrainConfig& run, const GivenFlags& given) {
  check_precision(run, given);
  check_optimizer(run.optimizer, given);
  check_schedule(run, given);
  if (run.reset_head && run.init_weights.empty()) {
    refuse(given, "reset-head", "it without --init-weights", "--init-weights FILE");
  }
  if (run.zero_init_residual && models::find_model(run.model).fixed_size) {
    refuse(given, "zero-init-residual", fmt::format("it beside --model {}", run.model), "a ResNet");
  }
  if (run.test_only && run.init_weights.empty() && run.output.resume.empty()) {
    refuse(given, "test-only", "no weights to test", "--init-weights FILE or --resume FILE");
  }
}

void warn_of_unused(const Settings& settings, const GivenFlags& given) {
  for (const auto& [name, value] : given) {
    const Flag& flag = *find_flag(name);
    if (value.from_line && flag.applies && !flag.applies(settings.run)) log_warn("--{} has no effect here", name);
  }
  if (settings.run.output.resume == "auto" && !given.contains("output-dir")) {
    log_warn("--resume auto without --output-dir looks into a new folder and finds nothing");
  }
}

void check_weights(const CommandSettings& command, const TrainConfig& run, const GivenFlags& given) {
  if (!command.checkpoint.empty() && !run.init_weights.empty()) {
    refuse(given, "init-weights", "it beside --checkpoint", "one of the two");
  }
  if (command.checkpoint.empty() && run.init_weights.empty()) {
    refuse(given, "checkpoint", "neither --checkpoint nor --init-weights", "one of the two");
  }
  if (command.ema && command.checkpoint.empty()) refuse(given, "ema", "it without --checkpoint", "--checkpoint FILE");
}

}  // namespace

void check_options(const Settings& settings, const GivenFlags& given, Command command) {
  const models::ModelInfo& model = models::find_model(settings.run.model);
  if (command == kTrain || command == kEvaluate) check_data(settings.run.data, given);
  if (command == kTrain || command == kEvaluate || command == kPredict) {
    check_pictures(settings, given, model);
    parse_device(settings.run.device);
  }
  if (command == kEvaluate || command == kPredict) check_weights(settings.command, settings.run, given);
  if (command == kTrain) {
    check_training(settings.run, given);
    warn_of_unused(settings, given);
  }
}

}  // namespace engine
