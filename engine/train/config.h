#pragma once
// Everything that a training run is told. engine/app reads it from the command line and a file; names of members are
// the flags' with underscores.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/optim/schedule.h"

namespace engine {

struct DataConfig {
  std::string dataset = "samples";
  std::string data_path;
  int workers = 0;  // 0: cores - 1, at least 1
  int64_t train_crop_size = 224;
  int64_t val_resize_size = 256;
  int64_t val_crop_size = 224;
  std::vector<float> mean;  // empty: the data set's
  std::vector<float> std;
  bool no_augment = false;
  std::string on_bad_image = "error";
  int64_t max_image_pixels = 178'956'970;
};

struct OutputConfig {
  std::string output_dir;        // empty: runs/<model>-<date>-<time>
  std::string resume;            // empty, "auto" or a file
  int64_t save_every_steps = 0;  // 0: off
  int64_t save_every_epochs = 1;
  int64_t keep_last = 3;
  int64_t log_every = 10;
  std::string log_file;  // empty: <output_dir>/train.log
  bool histograms = false;
  bool quiet = false;
};

struct TrainConfig {
  std::string model = "resnet50";
  int64_t num_classes = 0;  // 0: the data's
  std::string init_weights;
  bool reset_head = false;
  bool zero_init_residual = false;

  DataConfig data;
  std::string device = "auto";
  bool no_cuda_graph = false;
  bool cudnn_search = false;
  std::string fusion = "auto";  // engine/ops/conv_forms.h
  uint64_t schedule_seed = 0;   // of the emulated device
  bool kernel_check = false;
  std::string kernel_report;  // file; empty: none
  int threads = 0;            // 0: cores

  int64_t epochs = 90;
  int64_t steps = 0;  // 0: as the epochs say
  int64_t batch_size = 32;
  int64_t accumulate_steps = 1;

  std::string precision = "fp32";               // engine/amp/precision.h
  std::string loss_scale = "dynamic";           // or a number; for fp16
  std::string gradient_checkpointing = "none";  // "blocks", "auto"
  std::string memory_budget;                    // for auto; empty: what is free

  OptimizerConfig optimizer;
  double label_smoothing = 0;
  double ema_decay = 0;  // 0: off
  ScheduleConfig schedule;
  OutputConfig output;

  uint64_t seed = 0;
  bool deterministic = false;
  bool test_only = false;
  std::string on_nonfinite = "stop";
};

/// "512MiB", "1.5GiB" in bytes; none for anything else, or less than one byte.
std::optional<int64_t> memory_size(std::string_view text);
/// A factor from kernels::kLeastLossScale to kMostLossScale; none for anything else, "dynamic" among it.
std::optional<float> fixed_loss_scale(std::string_view text);

/// Values in force, flag name without dashes to TOML text ("0.1", "\"sgd\"", "true"), in the order of --help; what is
/// printed at the start, written to config.toml and stored in checkpoints.
using ConfigValues = std::vector<std::pair<std::string, std::string>>;

}  // namespace engine
