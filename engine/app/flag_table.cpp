#include "engine/app/flag_table.h"

#include <iterator>

#include "data/dataset.h"
#include "kernels/common/device.h"
#include "models/registry.h"

namespace engine {
namespace {

constexpr unsigned kModels = kTrain | kEvaluate | kPredict;  // commands that run a model
constexpr Limits kSizes{1, 65536};
constexpr Limits kThreads{1, 1024};

bool has_crops(const TrainConfig& c) { return !models::find_model(c.model).fixed_size; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : models::all_models()) names.push_back(model.name);
  return names;
}

std::vector<Flag> what() {
  return {
      {.name = "model",
       .target = [](Settings& s) -> std::string& { return s.run.model; },
       .help = "network",
       .shown_default = "resnet50",
       .choices = model_names(),
       .commands = kModels | kInfo | kPlan},
      {.name = "num-classes",
       .target = [](Settings& s) -> int64_t& { return s.run.num_classes; },
       .help = "outputs of the last layer; may exceed the data's",
       .shown_default = "the data's",
       .limits = {1, 1 << 20},
       .commands = kTrain | kInfo | kPlan,
       .optional = true},
      {.name = "init-weights",
       .target = [](Settings& s) -> std::string& { return s.run.init_weights; },
       .help = "safetensors file of weights to begin with, torchvision's names",
       .metavar = "FILE",
       .commands = kModels,
       .optional = true},
      {.name = "reset-head",
       .target = [](Settings& s) -> bool& { return s.run.reset_head; },
       .help = "load all of --init-weights but a last layer of another size",
       .applies = [](const TrainConfig& c) { return !c.init_weights.empty(); }},
      {.name = "zero-init-residual",
       .target = [](Settings& s) -> bool& { return s.run.zero_init_residual; },
       .help = "start the last batch norm of each residual block at 0",
       .applies = has_crops},
  };
}

std::vector<Flag> stored() {
  return {
      {.name = "checkpoint",
       .target = [](Settings& s) -> std::string& { return s.command.checkpoint; },
       .help = "training state written by a run; brings its model, classes and picture sizes",
       .metavar = "FILE",
       .commands = kEvaluate | kPredict | kExport},
      {.name = "ema",
       .target = [](Settings& s) -> bool& { return s.command.ema; },
       .help = "the moving average of the weights (--ema-decay) in place of the weights",
       .commands = kEvaluate | kPredict | kExport},
      {.name = "to",
       .target = [](Settings& s) -> std::string& { return s.command.to; },
       .help = "file to write",
       .metavar = "OUT.safetensors",
       .commands = kExport},
  };
}

std::vector<Flag> data_source() {
  return {
      {.name = "dataset",
       .target = [](Settings& s) -> std::string& { return s.run.data.dataset; },
       .help = "kind of data; samples is bundled (digits for simplecnn, photos for the ResNets)",
       .shown_default = "samples; with --data-path imagefolder, mnist for simplecnn",
       .choices = data::dataset_names(),
       .commands = kTrain | kEvaluate},
      {.name = "data-path",
       .target = [](Settings& s) -> std::string& { return s.run.data.data_path; },
       .help = "folder of your own data",
       .metavar = "FOLDER",
       .commands = kTrain | kEvaluate,
       .optional = true},
      {.name = "workers",
       .target = [](Settings& s) -> int& { return s.run.data.workers; },
       .help = "threads that read pictures ahead; 0 reads between the steps",
       .shown_default = "cores - 1, at least 1",
       .limits = {0, 1024},
       .commands = kTrain | kEvaluate},
      {.name = "on-bad-image",
       .target = [](Settings& s) -> std::string& { return s.run.data.on_bad_image; },
       .help = "what to do about a picture that cannot be read",
       .shown_default = "error",
       .choices = {"error", "skip"},
       .commands = kTrain | kEvaluate},
      {.name = "max-image-pixels",
       .target = [](Settings& s) -> int64_t& { return s.run.data.max_image_pixels; },
       .help = "larger pictures are refused unread",
       .shown_default = "178956970",
       .limits = {1, 1LL << 31},
       .commands = kModels},
  };
}

std::vector<Flag> pictures() {
  return {
      {.name = "train-crop-size",
       .target = [](Settings& s) -> int64_t& { return s.run.data.train_crop_size; },
       .help = "side of a random crop; no effect on simplecnn, which takes 28",
       .shown_default = "224; 64 for the bundled photos",
       .limits = kSizes,
       .commands = kTrain | kPlan,
       .applies = has_crops},
      {.name = "val-resize-size",
       .target = [](Settings& s) -> int64_t& { return s.run.data.val_resize_size; },
       .help = "shorter side that pictures are brought to for evaluation",
       .shown_default = "256; 64 for the bundled photos",
       .limits = kSizes,
       .commands = kModels,
       .applies = has_crops},
      {.name = "val-crop-size",
       .target = [](Settings& s) -> int64_t& { return s.run.data.val_crop_size; },
       .help = "side of the central crop for evaluation",
       .shown_default = "224; 64 for the bundled photos",
       .limits = kSizes,
       .commands = kModels,
       .applies = has_crops},
      {.name = "mean",
       .target = [](Settings& s) -> std::vector<float>& { return s.run.data.mean; },
       .help = "subtracted from pixels in 0 to 1, one number a channel, with commas",
       .shown_default = "the data set's",
       .limits = {-1e6, 1e6},
       .commands = kModels,
       .optional = true},
      {.name = "std",
       .target = [](Settings& s) -> std::vector<float>& { return s.run.data.std; },
       .help = "pixels are divided by it, one number a channel, with commas",
       .shown_default = "the data set's",
       .limits = {1e-6, 1e6},
       .commands = kModels,
       .optional = true},
      {.name = "no-augment",
       .target = [](Settings& s) -> bool& { return s.run.data.no_augment; },
       .help = "no random crops and flips"},
  };
}

std::vector<Flag> where() {
  return {
      {.name = "device",
       .target = [](Settings& s) -> std::string& { return s.run.device; },
       .help = kernels::kBuiltWithCuda ? "auto, cpu, cuda or cuda:N; auto is a GPU where one works"
                                       : "auto, cpu, emulated or emulated:N; auto is the CPU",
       .shown_default = "auto",
       .metavar = "DEVICE",
       .commands = kModels},
      {.name = "threads",
       .target = [](Settings& s) -> int& { return s.run.threads; },
       .help = "threads that compute",
       .shown_default = "cores",
       .limits = kThreads,
       .commands = kModels},
  };
}

std::vector<Flag> how_long() {
  return {
      {.name = "epochs",
       .target = [](Settings& s) -> int64_t& { return s.run.epochs; },
       .help = "passes over the training part",
       .shown_default = "90; 10 for simplecnn; 8 for the bundled photos",
       .limits = {1, 1e9}},
      {.name = "steps",
       .target = [](Settings& s) -> int64_t& { return s.run.steps; },
       .help = "stop once the run, resumed parts included, has done so many steps",
       .limits = {1, 1e15},
       .optional = true},
  };
}

std::vector<Flag> batch() {
  return {
      {.name = "batch-size",
       .target = [](Settings& s) -> int64_t& { return s.run.batch_size; },
       .help = "pictures at once",
       .shown_default = "32; 64 for simplecnn",
       .limits = {1, 1 << 20},
       .commands = kTrain | kEvaluate | kPlan},
      {.name = "accumulate-steps",
       .target = [](Settings& s) -> int64_t& { return s.run.accumulate_steps; },
       .help = "batches whose gradients make one step",
       .shown_default = "1",
       .limits = {1, 1 << 20}},
  };
}

std::vector<Flag> output() {
  return {
      {.name = "output-dir",
       .target = [](Settings& s) -> std::string& { return s.run.output.output_dir; },
       .help = "folder of all that a run writes; absent or empty, or with --resume",
       .shown_default = "runs/<model>-<date>-<time>",
       .metavar = "FOLDER",
       .optional = true},
      {.name = "resume",
       .target = [](Settings& s) -> std::string& { return s.run.output.resume; },
       .help = "go on from a checkpoint; auto is the newest whole one in --output-dir",
       .metavar = "auto|FILE",
       .optional = true},
      {.name = "save-every-steps",
       .target = [](Settings& s) -> int64_t& { return s.run.output.save_every_steps; },
       .help = "checkpoint each so many steps; 0 is off",
       .shown_default = "off",
       .limits = {0, 1e15},
       .optional = true},
      {.name = "save-every-epochs",
       .target = [](Settings& s) -> int64_t& { return s.run.output.save_every_epochs; },
       .help = "checkpoint each so many epochs; 0 is at the end only",
       .shown_default = "1",
       .limits = {0, 1e9}},
      {.name = "keep-last",
       .target = [](Settings& s) -> int64_t& { return s.run.output.keep_last; },
       .help = "newest checkpoints to keep, besides the best",
       .shown_default = "3",
       .limits = kFromOne},
      {.name = "log-every",
       .target = [](Settings& s) -> int64_t& { return s.run.output.log_every; },
       .help = "steps between two rows of metrics and lines of progress",
       .shown_default = "10",
       .limits = kFromOne},
      {.name = "log-file",
       .target = [](Settings& s) -> std::string& { return s.run.output.log_file; },
       .help = "file of the log",
       .shown_default = "train.log in --output-dir",
       .metavar = "FILE",
       .optional = true},
      {.name = "histograms",
       .target = [](Settings& s) -> bool& { return s.run.output.histograms; },
       .help = "histograms of weights and gradients for TensorBoard"},
      {.name = "quiet",
       .target = [](Settings& s) -> bool& { return s.run.output.quiet; },
       .help = "no progress on standard output, only the last line"},
      {.name = "json",
       .target = [](Settings& s) -> bool& { return s.command.json; },
       .help = "one JSON object on standard output",
       .commands = kEvaluate | kPredict | kExport | kInfo | kPlan},
      {.name = "logits",
       .target = [](Settings& s) -> bool& { return s.command.logits; },
       .help = "also the last layer's values",
       .commands = kPredict},
  };
}

std::vector<Flag> other() {
  return {
      {.name = "seed",
       .target = [](Settings& s) -> uint64_t& { return s.run.seed; },
       .help = "of weights, order of samples and augmentation",
       .shown_default = "0",
       .limits = kFromZero},
      {.name = "deterministic",
       .target = [](Settings& s) -> bool& { return s.run.deterministic; },
       .help = "same bits each time; always so on the CPU"},
      {.name = "test-only",
       .target = [](Settings& s) -> bool& { return s.run.test_only; },
       .help = "evaluate the weights of --init-weights or --resume and end"},
      {.name = "config",
       .target = [](Settings& s) -> std::string& { return s.command.config; },
       .help = "file with any of these flags by name; the command line wins",
       .metavar = "FILE.toml"},
      {.name = "on-nonfinite",
       .target = [](Settings& s) -> std::string& { return s.run.on_nonfinite; },
       .help = "what to do about a step whose loss or gradients are not finite",
       .shown_default = "stop",
       .choices = {"stop", "skip"}},
  };
}

}  // namespace

std::vector<Flag> make_flag_table() {
  std::vector<Flag> table;
  const auto add = [&](const char* task, std::vector<Flag> flags) {
    for (Flag& flag : flags) flag.task = task;
    table.insert(table.end(), std::make_move_iterator(flags.begin()), std::make_move_iterator(flags.end()));
  };
  add("What", what());
  add("What", stored());
  add("Data", data_source());
  add("Pictures", pictures());
  add("Where", where());
  add("Device", device_flags());
  add("Plan", plan_flags());
  add("How long", how_long());
  add("Batch", batch());
  add("Precision and memory", precision_flags());
  add("Optimizer", optimizer_flags());
  add("Optimizer", regularisation_flags());
  add("Schedule", schedule_flags());
  add("Output", output());
  add("Other", other());
  return table;
}

}  // namespace engine
