#pragma once
// From a decoded picture to the network's input: torchvision's reference recipe, in one pass over the pixels.
// Training: RandomResizedCrop and RandomHorizontalFlip; evaluation: Resize and CenterCrop; then ToTensor and Normalize.

#include <cstdint>
#include <vector>

#include "data/image.h"
#include "data/resample.h"
#include "engine/core/random.h"
#include "kernels/input/input.h"

namespace engine::data {

enum class TransformKind {
  /// RandomResizedCrop(crop, scale 0.08 to 1, ratio 3/4 to 4/3, ten tries) and a horizontal flip with probability 1/2,
  /// after Szegedy et al., "Going Deeper with Convolutions" (2015), as torchvision defines it.
  random_crop,
  /// The shorter side to `resize`, the longer one truncated, then the central `crop` by `crop`, as torchvision rounds
  /// it.
  center_crop,
  /// Pictures of `crop` by `crop` as they are; all others are resized to it, both sides.
  whole,
};

struct TransformOptions {
  TransformKind kind = TransformKind::center_crop;
  int crop = 224;
  int resize = 256;           // center_crop only; at least `crop`
  std::vector<float> mean;    // one a channel, of pixels in [0, 1]
  std::vector<float> stddev;  // one a channel, above 0
};

/// Constant once made; apply() may be called from many threads, each with its own Scratch.
class Transform {
 public:
  using Scratch = ResampleScratch;

  /// Throws ConfigError for sizes below 1, a crop above the resized side, mean or stddev of another length than
  /// `channels` or values that are not finite, or a stddev that is not above 0.
  Transform(const TransformOptions& options, int channels);

  int height() const { return options_.crop; }
  int width() const { return options_.crop; }
  int channels() const { return static_cast<int>(options_.mean.size()); }

  /// How bytes become values.
  const kernels::PixelScale& pixel() const { return pixel_; }

  /// Writes [height, width, channels] values (x / 255 - mean) / stddev to `out`. Pixels are those of Pillow's
  /// resize(BILINEAR), which widens the triangle filter where it shrinks, to within 1/255. `random` is used by
  /// random_crop only.
  void apply(const Image& image, RandomStream random, Scratch& scratch, float* out) const;
  /// The same pixels as bytes, neither mirrored nor normalised; returns whether they are to be mirrored. kernels/input
  /// makes of them what the other form writes.
  bool apply(const Image& image, RandomStream random, Scratch& scratch, uint8_t* out) const;

 private:
  /// What is to be done, but for the normalisation.
  ResampleTask task_for(const Image& image, RandomStream& random) const;

  TransformOptions options_;
  kernels::PixelScale pixel_;
};

/// A rectangle of pixels.
struct Box {
  int top, left, height, width;
};

/// RandomResizedCrop's rectangle for a picture. Public for tests.
Box random_crop_box(int height, int width, RandomStream& random);

/// The size to which Resize(`side`) brings a picture.
struct Size {
  int64_t height, width;
};
Size resized_size(int height, int width, int side);

/// Where CenterCrop(`crop`) begins in a length that is at least `crop`: (length - crop) / 2, halves to even.
int64_t center_offset(int64_t length, int64_t crop);

}  // namespace engine::data
