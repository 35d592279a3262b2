#pragma once
// One file of training state: safetensors with the model under "model.", the average under "ema.", optimizer state
// under "optimizer.<slot>." and scalars in the metadata. Names and layouts are torchvision's.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/weight_average.h"
#include "engine/train/config.h"
#include "kernels/common/loss_scale.h"

namespace engine {

inline constexpr const char* kCheckpointFormat = "engine-checkpoint-1";

/// What a file is read into and written from.
struct TrainedParts {
  Module* model = nullptr;
  FlatParameters* parameters = nullptr;
  Optimizer* optimizer = nullptr;
  WeightAverage* average = nullptr;  // null: no moving average
};

/// Where a run stands.
struct TrainProgress {
  int64_t step = 0;            // global batches done
  int64_t epoch = 0;           // the running one; finished ones lie before it
  int64_t epoch_position = 0;  // samples of its order that are done
  std::optional<double> best_top1;
  int64_t best_step = 0;
  std::optional<double> last_top1;  // of the last evaluation
  int64_t skipped_in_a_row = 0;
  std::optional<kernels::LossScale> scaling;  // of a run in FP16
};

/// What describes the run, the same in all its files.
struct RunIdentity {
  std::string model;
  std::vector<std::string> classes;
  ConfigValues values;
  uint64_t seed = 0;
};

/// The lines of config.toml.
std::string config_text(const ConfigValues& values);

/// Writes the file whole or not at all. Throws OutputError.
void save_checkpoint(const std::filesystem::path& path, const TrainedParts& parts, const TrainProgress& progress,
                     const RunIdentity& identity);

/// Opens a checkpoint and checks header, format and digest. Throws CheckpointError.
SafetensorsFile open_checkpoint(const std::filesystem::path& path);

/// Restores everything. Throws CheckpointError for what is missing or does not fit.
TrainProgress load_checkpoint(const SafetensorsFile& file, const TrainedParts& parts);

/// The values that the run was started with, flag name to TOML text.
ConfigValues values_of(const SafetensorsFile& file);

}  // namespace engine
