#pragma once
// Models by name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/module.h"

namespace engine::models {

struct ModelOptions {
  int64_t num_classes = 1000;
  uint64_t seed = 0;                // of the initial weights
  bool zero_init_residual = false;  // ResNets: the last batch norm of each block starts at 0 (Goyal et al., 2017)
};

struct ModelInfo {
  std::string name;
  int64_t channels;      // of its pictures: 1 or 3
  int64_t picture_size;  // height and width that it is described with; SimpleCNN takes this size only
  bool fixed_size;
  std::string head;  // name of the last layer, e.g. "fc"
  std::unique_ptr<Module> (*make)(const ModelOptions&);
};

/// All of them, in the order in which they are listed.
const std::vector<ModelInfo>& all_models();
/// Throws ConfigError that lists the names.
const ModelInfo& find_model(const std::string& name);

}  // namespace engine::models
