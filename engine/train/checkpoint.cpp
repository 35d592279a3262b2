#include "engine/train/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/io/state_dict.h"

namespace engine {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json loss_scaler_of(const TrainProgress& progress) {
  Json scaler = {{"skipped_in_a_row", progress.skipped_in_a_row}};
  if (progress.scaling) {
    scaler["scale"] = static_cast<double>(progress.scaling->scale);
    scaler["good_steps"] = progress.scaling->good_steps;
    scaler["skipped"] = progress.scaling->skipped;
  }
  return scaler;
}

Metadata metadata_of(const TrainedParts& parts, const TrainProgress& progress, const RunIdentity& identity) {
  Json best = Json::object();
  if (progress.best_top1) best = {{"val_top1", *progress.best_top1}, {"step", progress.best_step}};
  if (progress.last_top1) best["last_val_top1"] = *progress.last_top1;
  return {
      {"format", kCheckpointFormat},
      {"model", identity.model},
      {"step", std::to_string(progress.step)},
      {"epoch", std::to_string(progress.epoch)},
      {"config", config_text(identity.values)},
      {"classes", text_of(identity.classes)},
      {"sampler", text_of({{"epoch", progress.epoch}, {"position", progress.epoch_position}, {"seed", identity.seed}})},
      {"rng", text_of({{"generator", "philox4x32-10"}, {"seed", identity.seed}})},
      {"scheduler", text_of({{"steps", progress.step}})},
      {"optimizer", text_of({{"applied_steps", parts.optimizer->applied_steps()}})},
      {"loss_scaler", text_of(loss_scaler_of(progress))},
      {"best", text_of(best)},
  };
}

void append(std::vector<SafetensorsEntry>& entries, std::span<const FileTensor> tensors, const std::string& prefix) {
  std::vector<SafetensorsEntry> more = file_entries(tensors, prefix);
  entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

const std::string& entry(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw CheckpointError(fmt::format("checkpoint: {}: metadata: got no \"{}\", expected it", file.path(), key),
                          "the file was not written by engine_train, or is damaged");
  }
  return found->second;
}

/// A JSON object in the metadata, and whole numbers in it.
class Section {
 public:
  Section(const SafetensorsFile& file, const std::string& key) : file_(file), key_(key) {
    value_ = Json::parse(entry(file, key), nullptr, false);
    if (!value_.is_object()) fail();
  }
  int64_t count(const char* name) const {
    if (!value_.contains(name) || !value_[name].is_number_integer() || value_[name].get<int64_t>() < 0) fail();
    return value_[name].get<int64_t>();
  }
  std::optional<double> number(const char* name) const {
    if (!value_.contains(name)) return std::nullopt;
    if (!value_[name].is_number()) fail();
    return value_[name].get<double>();
  }

 private:
  [[noreturn]] void fail() const {
    throw CheckpointError(fmt::format("checkpoint: {}: metadata \"{}\": got {}, expected the run's state", file_.path(),
                                      key_, escaped(entry(file_, key_))));
  }

  const SafetensorsFile& file_;
  std::string key_;
  Json value_;
};

TrainProgress progress_of(const SafetensorsFile& file) {
  TrainProgress progress;
  const Section sampler(file, "sampler"), scheduler(file, "scheduler"), scaler(file, "loss_scaler"), best(file, "best");
  progress.step = scheduler.count("steps");
  progress.epoch = sampler.count("epoch");
  progress.epoch_position = sampler.count("position");
  progress.skipped_in_a_row = scaler.count("skipped_in_a_row");
  if (const auto scale = scaler.number("scale")) {
    // What is out of range in a file of somebody else's making is brought back into it.
    const double kept = std::clamp(*scale, double{kernels::kLeastLossScale}, double{kernels::kMostLossScale});
    progress.scaling = {
        .scale = static_cast<float>(kept),
        .good_steps =
            static_cast<int32_t>(std::min<int64_t>(scaler.count("good_steps"), kernels::kLossScaleInterval - 1)),
        .skipped_in_a_row =
            static_cast<int32_t>(std::min<int64_t>(progress.skipped_in_a_row, kernels::kMostSkipsInARow - 1)),
        .skipped = static_cast<int32_t>(std::min<int64_t>(scaler.count("skipped"), INT32_MAX))};
  }
  progress.best_top1 = best.number("val_top1");
  if (progress.best_top1) progress.best_step = best.count("step");
  progress.last_top1 = best.number("last_val_top1");
  return progress;
}

std::string slot_prefix(const OptimizerSlot& slot) { return "optimizer." + slot.name + "."; }

}  // namespace

std::string config_text(const ConfigValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += name + " = " + value + "\n";
  return text;
}

void save_checkpoint(const std::filesystem::path& path, const TrainedParts& parts, const TrainProgress& progress,
                     const RunIdentity& identity) {
  std::vector<SafetensorsEntry> entries;
  append(entries, file_tensors(parts.parameters->model_tensors()), "model.");
  if (parts.average != nullptr) append(entries, file_tensors(parts.average->tensors()), "ema.");
  for (const OptimizerSlot& slot : parts.optimizer->slots()) {
    append(entries, file_tensors(parts.parameters->views(slot.buffer)), slot_prefix(slot));
  }
  write_safetensors(path, entries, metadata_of(parts, progress, identity), true);
}

SafetensorsFile open_checkpoint(const std::filesystem::path& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const std::string& format = entry(file, "format");
  if (format != kCheckpointFormat) {
    throw CheckpointError(fmt::format("checkpoint: {}: format: got \"{}\", expected \"{}\"", file.path(),
                                      escaped(format), kCheckpointFormat));
  }
  file.verify_sha256();
  return file;
}

TrainProgress load_checkpoint(const SafetensorsFile& file, const TrainedParts& parts) {
  const TrainProgress progress = progress_of(file);
  const int64_t applied = Section(file, "optimizer").count("applied_steps");
  load_tensors(file, file_tensors(parts.parameters->model_tensors()), {.prefix = "model."});
  parts.parameters->refresh_compute_copy();
  if (parts.average != nullptr) load_tensors(file, file_tensors(parts.average->tensors()), {.prefix = "ema."});
  for (const OptimizerSlot& slot : parts.optimizer->slots()) {
    load_tensors(file, file_tensors(parts.parameters->views(slot.buffer)), {.prefix = slot_prefix(slot)});
  }
  parts.optimizer->set_applied_steps(applied);
  return progress;
}

ConfigValues values_of(const SafetensorsFile& file) {
  ConfigValues values;
  std::string_view text = entry(file, "config");
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t equals = line.find(" = ");
    if (equals != std::string_view::npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 3));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return values;
}

}  // namespace engine
