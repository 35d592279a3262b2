#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/error.h"

namespace engine::data {
namespace {

constexpr float kMinArea = 0.08F, kMaxArea = 1.0F;
constexpr double kMinRatio = 3.0 / 4.0, kMaxRatio = 4.0 / 3.0;
constexpr int kTries = 10;

/// To the nearest whole number, halves to even, as Python's round().
int nearest(double x) { return static_cast<int>(std::nearbyint(x)); }

int random_below(RandomStream& random, int count) {
  return static_cast<int>(random.below(static_cast<uint64_t>(count)));
}

void check_values(const char* what, const std::vector<float>& values, int channels) {
  if (static_cast<int>(values.size()) != channels) {
    throw ConfigError(fmt::format("[transform] {}: got {} values, expected {}, one a channel of the pictures", what,
                                  values.size(), channels));
  }
  for (const float value : values) {
    if (!std::isfinite(value)) throw ConfigError(fmt::format("[transform] {}: got {}, expected a number", what, value));
  }
}

}  // namespace

Transform::Transform(const TransformOptions& options, int channels) : options_(options) {
  if (channels != 1 && channels != 3) {
    throw ConfigError(fmt::format("[transform] channels: got {}, expected 1 or 3", channels));
  }
  if (options.crop < 1)
    throw ConfigError(fmt::format("[transform] crop size: got {}, expected 1 or more", options.crop));
  if (options.kind == TransformKind::center_crop && options.resize < options.crop) {
    throw ConfigError(fmt::format("[transform] resize size: got {}, expected at least the crop size {}", options.resize,
                                  options.crop));
  }
  check_values("mean", options.mean, channels);
  check_values("std", options.stddev, channels);
  for (size_t c = 0; c < options.mean.size(); ++c) {
    const float deviation = options.stddev[c];
    if (!(deviation > 0)) throw ConfigError(fmt::format("[transform] std: got {}, expected more than 0", deviation));
  }
  pixel_ = kernels::pixel_scale(options.mean.data(), options.stddev.data(), channels);
}

ResampleTask Transform::task_for(const Image& image, RandomStream& random) const {
  ENGINE_CHECK(image.channels == channels(), "[transform] picture: got {} channels, expected {}", image.channels,
               channels());
  Box box{0, 0, image.height, image.width};
  ResampleTask task;
  task.resized_height = task.resized_width = options_.crop;
  if (options_.kind == TransformKind::random_crop) {
    box = random_crop_box(image.height, image.width, random);
    task.flip = random.uniform() < 0.5F;
  } else if (options_.kind == TransformKind::center_crop) {
    const Size size = resized_size(image.height, image.width, options_.resize);
    task.resized_height = size.height;
    task.resized_width = size.width;
    task.top = center_offset(size.height, options_.crop);
    task.left = center_offset(size.width, options_.crop);
  }
  task.row_bytes = int64_t{image.width} * image.channels;
  task.source = image.pixels.data() + box.top * task.row_bytes + int64_t{box.left} * image.channels;
  task.channels = image.channels;
  task.in_height = box.height;
  task.in_width = box.width;
  task.height = task.width = options_.crop;
  return task;
}

void Transform::apply(const Image& image, RandomStream random, Scratch& scratch, float* out) const {
  ResampleTask task = task_for(image, random);
  task.scale = pixel_.scale;
  task.shift = pixel_.shift;
  resample(task, scratch, out);
}

bool Transform::apply(const Image& image, RandomStream random, Scratch& scratch, uint8_t* out) const {
  ResampleTask task = task_for(image, random);
  const bool flip = std::exchange(task.flip, false);
  resample(task, scratch, out);
  return flip;
}

Box random_crop_box(int height, int width, RandomStream& random) {
  const double area = static_cast<double>(height) * width;
  const auto low = static_cast<float>(std::log(kMinRatio)), high = static_cast<float>(std::log(kMaxRatio));
  for (int i = 0; i < kTries; ++i) {
    const double target = area * static_cast<double>(random.uniform(kMinArea, kMaxArea));
    const double ratio = std::exp(static_cast<double>(random.uniform(low, high)));
    const int w = nearest(std::sqrt(target * ratio)), h = nearest(std::sqrt(target / ratio));
    if (0 < w && w <= width && 0 < h && h <= height) {
      const int top = random_below(random, height - h + 1);
      return {top, random_below(random, width - w + 1), h, w};
    }
  }
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < kMinRatio) h = nearest(width / kMinRatio);
  if (ratio > kMaxRatio) w = nearest(height * kMaxRatio);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Size resized_size(int height, int width, int side) {
  const int64_t shorter = std::min(height, width);
  return {int64_t{side} * height / shorter, int64_t{side} * width / shorter};
}

int64_t center_offset(int64_t length, int64_t crop) { return std::llrint(static_cast<double>(length - crop) / 2.0); }

}  // namespace engine::data
