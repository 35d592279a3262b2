#pragma once
// The data of a run: an opened set and the loaders over its parts.

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/transforms.h"
#include "engine/train/config.h"
#include "models/registry.h"

namespace engine {

struct DataParts {
  data::DatasetPair sets;
  std::unique_ptr<data::Loader> train;       // null where not asked for
  std::unique_ptr<data::Loader> validation;  // null where there is no validation part
};

/// Opens the set that the configuration names in the model's channels and makes the loaders. `classes` are a
/// checkpoint's, or empty. Sets config.data.mean and .std where they are empty. Throws DataError and ConfigError.
DataParts open_data(TrainConfig& config, const models::ModelInfo& model, const std::vector<std::string>& classes,
                    bool with_train);

/// How pictures are brought to the network for evaluation.
data::TransformOptions evaluation_transform(const TrainConfig& config, const models::ModelInfo& model);

/// Normalisation of the configuration's data set in the model's channels, where none is given.
void fill_in_normalization(TrainConfig& config, const models::ModelInfo& model);

}  // namespace engine
