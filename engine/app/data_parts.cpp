#include "engine/app/data_parts.h"

#include <algorithm>

namespace engine {
namespace {

data::ImageMode mode_of(const models::ModelInfo& model) {
  return model.channels == 1 ? data::ImageMode::gray : data::ImageMode::rgb;
}

data::DatasetOptions dataset_options(const TrainConfig& config, const models::ModelInfo& model) {
  data::DatasetOptions options;
  options.kind = config.data.dataset;
  options.path = config.data.data_path;
  options.sample_set = model.fixed_size ? "digits" : "photos";
  options.mode = mode_of(model);
  options.max_image_pixels = config.data.max_image_pixels;
  const auto side = static_cast<int>(std::max(config.data.train_crop_size, config.data.val_crop_size));
  options.synthetic.height = options.synthetic.width = side;
  options.synthetic.seed = config.seed;
  if (config.num_classes > 0) options.synthetic.num_classes = static_cast<int>(config.num_classes);
  return options;
}

data::TransformOptions training_transform(const TrainConfig& config, const models::ModelInfo& model) {
  data::TransformOptions options = evaluation_transform(config, model);
  if (model.fixed_size) return options;
  // Without augmentation, crops keep the evaluation's proportion of crop to resized side.
  const int64_t crop = config.data.train_crop_size;
  const int64_t resize =
      (crop * config.data.val_resize_size + config.data.val_crop_size / 2) / config.data.val_crop_size;
  options.kind = config.data.no_augment ? data::TransformKind::center_crop : data::TransformKind::random_crop;
  options.crop = static_cast<int>(crop);
  options.resize = static_cast<int>(std::max(crop, resize));
  return options;
}

data::LoaderOptions loader_options(const TrainConfig& config, bool training) {
  data::LoaderOptions options;
  options.batch_size = config.batch_size;
  options.accumulate_steps = training ? config.accumulate_steps : 1;
  options.workers = config.data.workers;
  options.training = training;
  options.seed = config.seed;
  options.on_bad_image = config.data.on_bad_image == "skip" ? data::BadImagePolicy::skip : data::BadImagePolicy::error;
  return options;
}

}  // namespace

void fill_in_normalization(TrainConfig& config, const models::ModelInfo& model) {
  const data::Normalization usual = data::default_normalization(config.data.dataset, mode_of(model));
  if (config.data.mean.empty()) config.data.mean = usual.mean;
  if (config.data.std.empty()) config.data.std = usual.stddev;
}

data::TransformOptions evaluation_transform(const TrainConfig& config, const models::ModelInfo& model) {
  data::TransformOptions options;
  options.kind = model.fixed_size ? data::TransformKind::whole : data::TransformKind::center_crop;
  options.crop = static_cast<int>(config.data.val_crop_size);
  options.resize = static_cast<int>(config.data.val_resize_size);
  options.mean = config.data.mean;
  options.stddev = config.data.std;
  return options;
}

DataParts open_data(TrainConfig& config, const models::ModelInfo& model, const std::vector<std::string>& classes,
                    bool with_train) {
  data::DatasetOptions options = dataset_options(config, model);
  options.classes = classes;
  options.open_train = with_train;
  DataParts parts;
  parts.sets = data::open_dataset(options);
  if (config.data.mean.empty()) config.data.mean = parts.sets.mean;
  if (config.data.std.empty()) config.data.std = parts.sets.stddev;
  if (with_train) {
    parts.train = std::make_unique<data::Loader>(*parts.sets.train, training_transform(config, model),
                                                 loader_options(config, true));
  }
  if (parts.sets.val) {
    parts.validation = std::make_unique<data::Loader>(*parts.sets.val, evaluation_transform(config, model),
                                                      loader_options(config, false));
  }
  return parts;
}

}  // namespace engine
