#include "engine/app/loaded_model.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/app/options.h"
#include "engine/core/error.h"
#include "engine/io/state_dict.h"
#include "engine/train/checkpoint.h"

namespace engine {
namespace {

const std::string& metadata_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw CheckpointError(fmt::format("checkpoint: {}: got no {} in its metadata, expected one", file.path(), key));
  }
  return found->second;
}

/// Refuses wrong values before any file is opened.
void check_given(const GivenFlags& given) {
  Settings scratch;
  for (const auto& [name, value] : given) assign(*find_flag(name), value, scratch);
}

/// What a checkpoint's configuration and metadata say, below the line's flags.
GivenFlags flags_with_checkpoint(const CommandLine& line, const SafetensorsFile& file) {
  const std::string& model = metadata_of(file, "model");
  GivenFlags flags = with_checkpoint_config(line.flags, metadata_of(file, "config"), file.path(), line.command);
  const auto given = line.flags.find("model");
  if (given != line.flags.end() && given->second.texts[0] != model) {
    throw CheckpointError(fmt::format("checkpoint: {}: got a {}, expected a {} (--model)", file.path(), escaped(model),
                                      escaped(given->second.texts[0])));
  }
  flags["model"] = {{model}, ValueForm::string, fmt::format("checkpoint: {}: model", file.path()), false};
  return flags;
}

}  // namespace

int64_t classes_in_file(const SafetensorsFile& file, const models::ModelInfo& model, const std::string& prefix) {
  const std::string name = model.head + ".weight";
  const TensorInfo* head = file.find(prefix + name);
  if (head == nullptr) head = file.find(prefix + "module." + name);
  return head == nullptr || head->shape.rank() == 0 ? 0 : head->shape[0];
}

std::vector<std::string> checkpoint_classes(const SafetensorsFile& file) {
  const auto list = nlohmann::json::parse(metadata_of(file, "classes"), nullptr, false);
  std::vector<std::string> classes;
  bool fits = list.is_array();
  for (size_t i = 0; fits && i < list.size(); ++i) {
    fits = list[i].is_string();
    if (fits) classes.push_back(list[i].get<std::string>());
  }
  if (!fits) {
    throw CheckpointError(fmt::format("checkpoint: {}: got no list of names as classes, expected one", file.path()));
  }
  return classes;
}

LoadedModel load_model(const CommandLine& line) {
  check_given(line.flags);
  LoadedModel loaded;
  const auto checkpoint = line.flags.find("checkpoint");
  std::optional<SafetensorsFile> file;
  std::string prefix;
  if (checkpoint != line.flags.end() && !line.flags.contains("init-weights")) {
    file = open_checkpoint(checkpoint->second.texts[0]);
    loaded.settings = resolve(flags_with_checkpoint(line, *file), line.command);
    loaded.classes = checkpoint_classes(*file);
    prefix = "model.";
  } else {
    loaded.settings = resolve(line.flags, line.command);
    file = SafetensorsFile::open(loaded.settings.run.init_weights);
  }
  loaded.info = &models::find_model(loaded.settings.run.model);
  loaded.num_classes = classes_in_file(*file, *loaded.info, prefix);
  // A file without a last layer does not fit whatever its size would be; load_tensors lists what it lacks.
  if (loaded.num_classes == 0) loaded.num_classes = 1;
  loaded.module = loaded.info->make({.num_classes = loaded.num_classes});
  load_tensors(*file, file_tensors(*loaded.module), {.prefix = prefix, .head = ""});
  if (loaded.settings.command.ema) {
    // The average covers what the optimizer updates; running statistics are the model's.
    std::vector<FileTensor> averaged;
    for (const FileTensor& tensor : file_tensors(*loaded.module)) {
      if (file->find("ema." + tensor.name) != nullptr) averaged.push_back(tensor);
    }
    if (averaged.empty()) {
      throw CheckpointError(fmt::format("checkpoint: {}: got no moving average, expected one for --ema", file->path()),
                            "train with --ema-decay");
    }
    load_tensors(*file, averaged, {.prefix = "ema.", .head = ""});
  }
  loaded.module->set_training(false);
  return loaded;
}

}  // namespace engine
