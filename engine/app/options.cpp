#include "engine/app/options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/app/option_checks.h"
#include "engine/app/toml.h"
#include "engine/core/device.h"
#include "engine/core/error.h"
#include "models/registry.h"

namespace engine {
namespace {

std::string read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  std::error_code ignored;
  const bool readable = file.is_open() && !std::filesystem::is_directory(path, ignored);
  if (readable && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!readable || file.bad() || text.bad()) {
    throw ConfigError(fmt::format("--config: {}: got no readable file, expected a TOML file", escaped(path)));
  }
  return text.str();
}

ValueForm form_of(TomlKind kind) {
  switch (kind) {
    case TomlKind::string:
      return ValueForm::string;
    case TomlKind::boolean:
      return ValueForm::boolean;
    case TomlKind::integer:
    case TomlKind::number:
      return ValueForm::number;
  }
  return ValueForm::string;
}

/// The values that only this model can be trained with, and those that its published recipe has.
void apply_model_defaults(Settings& settings, const models::ModelInfo& model) {
  TrainConfig& run = settings.run;
  if (!model.fixed_size) return;
  run.data.train_crop_size = run.data.val_resize_size = run.data.val_crop_size = model.picture_size;
  run.epochs = 10;
  run.batch_size = 64;
  run.optimizer.opt = "adam";
  run.optimizer.lr = 0.001;
  run.optimizer.weight_decay = 0;
  run.schedule.lr_scheduler = "constant";
}

/// A recipe that learns the bundled photos on a CPU in minutes. The parts belong together: another optimizer or
/// schedule brings its own defaults.
void apply_photo_recipe(Settings& settings, const GivenFlags& given) {
  const auto has = [&](const char* name) { return given.contains(name); };
  TrainConfig& run = settings.run;
  run.epochs = 8;
  run.data.train_crop_size = run.data.val_resize_size = run.data.val_crop_size = 64;
  if (!has("opt") || given.at("opt").texts == std::vector<std::string>{"adam"}) {
    run.optimizer.opt = "adam";
    run.optimizer.lr = 0.001;
    run.optimizer.weight_decay = 0;
  }
  if (!has("lr-scheduler")) {
    run.schedule.lr_scheduler = "cosine";
    if (!has("lr-warmup-steps")) run.schedule.lr_warmup_epochs = 1;
  }
}

/// A crop larger than the resized side is brought about by a resize in the usual proportion, 256 to 224.
void fit_resize_to_crop(Settings& settings, const GivenFlags& given) {
  DataConfig& data = settings.run.data;
  if (given.contains("val-resize-size") || data.val_crop_size <= data.val_resize_size) return;
  data.val_resize_size = (data.val_crop_size * 8 + 6) / 7;
}

void choose_dataset(Settings& settings, const GivenFlags& given, const models::ModelInfo& model) {
  if (given.contains("dataset") || !given.contains("data-path")) return;
  settings.run.data.dataset = model.fixed_size ? "mnist" : "imagefolder";
}

void fill_in_cores(Settings& settings, const GivenFlags& given) {
  const int cores = describe_cpu().cores;
  if (!given.contains("threads")) settings.run.threads = cores;
  if (!given.contains("workers")) settings.run.data.workers = std::max(1, cores - 1);
}

void assign_given(Settings& settings, const GivenFlags& given, const char* name) {
  if (const auto value = given.find(name); value != given.end()) assign(*find_flag(name), value->second, settings);
}

}  // namespace

GivenFlags given_in_config(const std::string& text, const std::string& name, Command command, bool lenient) {
  GivenFlags given;
  for (TomlEntry& entry : parse_toml(text, name)) {
    const std::string where = fmt::format("configuration: {}: {}", escaped(name), escaped(entry.key));
    const Flag* flag = find_flag(entry.key);
    if (flag == nullptr || (flag->commands & command) == 0 || flag->name == "config") {
      if (lenient) continue;
      throw ConfigError(fmt::format("{}: got an unknown key, expected a flag's name without dashes", where),
                        suggestion(entry.key, command));
    }
    if (entry.array && !flag->is_list()) {
      throw ConfigError(fmt::format("{}: got a list, expected one value", where));
    }
    given[entry.key] = {std::move(entry.texts), form_of(entry.kind), where, false};
  }
  return given;
}

GivenFlags merge_config_file(const GivenFlags& line, Command command) {
  const auto file = line.find("config");
  if (file == line.end()) return line;
  Settings settings;
  assign_given(settings, line, "config");
  const std::string& path = settings.command.config;
  GivenFlags merged = line;
  merged.merge(given_in_config(read_config(path), path, command));
  return merged;
}

GivenFlags with_checkpoint_config(const GivenFlags& line, const std::string& config, const std::string& name,
                                  Command command) {
  const bool names_data = line.contains("dataset") || line.contains("data-path");
  constexpr const char* kTaken[] = {
      "model", "dataset", "data-path", "train-crop-size", "val-resize-size", "val-crop-size", "mean", "std", "seed"};
  GivenFlags merged = line;
  for (auto& [key, value] : given_in_config(config, name, kTrain, true)) {
    if (std::find(std::begin(kTaken), std::end(kTaken), key) == std::end(kTaken)) continue;
    if (names_data && (key == "dataset" || key == "data-path")) continue;
    const unsigned commands = find_flag(key)->commands;
    if ((commands & command) != 0 || key == "seed" || key == "train-crop-size" || command == kPredict) {
      merged.insert({key, value});
    }
  }
  return merged;
}

Settings resolve(const GivenFlags& given, Command command) {
  Settings settings;
  assign_given(settings, given, "model");
  const models::ModelInfo& model = models::find_model(settings.run.model);
  apply_model_defaults(settings, model);
  choose_dataset(settings, given, model);
  assign_given(settings, given, "dataset");
  if (settings.run.data.dataset == "samples" && !model.fixed_size) apply_photo_recipe(settings, given);
  for (const auto& [name, value] : given) assign(*find_flag(name), value, settings);
  fill_in_cores(settings, given);
  fit_resize_to_crop(settings, given);
  check_options(settings, given, command);
  return settings;
}

ConfigValues values_in_force(const Settings& settings) {
  ConfigValues values;
  for (const Flag& flag : all_flags()) {
    if ((flag.commands & kTrain) == 0 || flag.name == "config") continue;
    if (auto text = toml_value(flag, settings)) values.emplace_back(flag.name, std::move(*text));
  }
  return values;
}

}  // namespace engine
