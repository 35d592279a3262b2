#include "models/registry.h"

#include "engine/core/error.h"
#include "models/resnet.h"
#include "models/simple_cnn.h"

namespace engine::models {

const std::vector<ModelInfo>& all_models() {
  static const std::vector<ModelInfo> models = {
      {"simplecnn", 1, 28, true, "fc1", make_simple_cnn}, {"resnet18", 3, 224, false, "fc", make_resnet18},
      {"resnet34", 3, 224, false, "fc", make_resnet34},   {"resnet50", 3, 224, false, "fc", make_resnet50},
      {"resnet101", 3, 224, false, "fc", make_resnet101}, {"resnet152", 3, 224, false, "fc", make_resnet152},
  };
  return models;
}

const ModelInfo& find_model(const std::string& name) {
  std::string known;
  for (const ModelInfo& model : all_models()) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  throw ConfigError(fmt::format("--model: got \"{}\", expected one of {}", escaped(name), known));
}

}  // namespace engine::models
