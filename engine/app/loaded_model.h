#pragma once
// A model with weights from a file, for evaluate and predict.

#include <memory>
#include <string>
#include <vector>

#include "engine/app/command_line.h"
#include "engine/app/settings.h"
#include "engine/io/safetensors.h"
#include "engine/nn/module.h"
#include "models/registry.h"

namespace engine {

struct LoadedModel {
  std::unique_ptr<Module> module;  // in evaluation mode
  const models::ModelInfo* info = nullptr;
  std::vector<std::string> classes;  // the checkpoint's; empty with --init-weights
  int64_t num_classes = 0;
  Settings settings;  // the line's over the checkpoint's
};

/// Loads what --checkpoint or --init-weights names. Throws ConfigError, and CheckpointError for a file that is missing,
/// damaged or does not fit.
LoadedModel load_model(const CommandLine& line);

/// Names of the classes in a checkpoint's metadata. Throws CheckpointError.
std::vector<std::string> checkpoint_classes(const SafetensorsFile& file);

/// Extent 0 of the last layer's weight in a weight file; 0 where it has none.
int64_t classes_in_file(const SafetensorsFile& file, const models::ModelInfo& model, const std::string& prefix = "");

}  // namespace engine
