#include <algorithm>

#include "data/openers.h"
#include "engine/core/error.h"
#include "engine/core/random.h"

namespace engine::data {
namespace {

/// A class is a grid of kGrid x kGrid colours; its pictures are that grid, enlarged, with noise of half the range.
constexpr int kGrid = 4;
constexpr uint64_t kClassStream = 0, kTrainStream = 1, kValStream = 2;

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(const SyntheticOptions& options, uint64_t stream, std::vector<std::string> classes, ImageMode mode)
      : Dataset(std::move(classes), mode), options_(options), stream_(stream) {}

  int64_t size() const override { return stream_ == kTrainStream ? options_.train_samples : options_.val_samples; }
  int64_t label(int64_t index) const override { return index % options_.num_classes; }
  using Dataset::load;

  void load(int64_t index, Image& image) const override {
    const auto label_key = static_cast<uint32_t>(label(index));
    RandomStream colours(options_.seed, RandomPurpose::synthetic, kClassStream, label_key);
    RandomStream noise(options_.seed, RandomPurpose::synthetic, stream_, static_cast<uint32_t>(index));
    uint8_t grid[kGrid][kGrid][3];
    for (auto& row : grid) {
      for (auto& colour : row) {
        const uint32_t bits = colours.next_u32();
        for (int c = 0; c < 3; ++c) colour[c] = static_cast<uint8_t>((bits >> (8 * c) & 0xFF) / 2);
      }
    }
    image.reshape(options_.height, options_.width, 3);
    uint8_t* pixel = image.pixels.data();
    for (int y = 0; y < options_.height; ++y) {
      for (int x = 0; x < options_.width; ++x, pixel += 3) {
        const uint8_t* colour = grid[y * kGrid / options_.height][x * kGrid / options_.width];
        const uint32_t bits = noise.next_u32();
        for (int c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>(colour[c] + (bits >> (8 * c) & 0x7F));
      }
    }
    convert(image, mode_);
  }

  std::string name_of(int64_t index) const override {
    return fmt::format("synthetic {} picture {}", stream_ == kTrainStream ? "training" : "validation", index);
  }

 private:
  SyntheticOptions options_;
  uint64_t stream_;
};

}  // namespace

DatasetPair open_synthetic(const DatasetOptions& options) {
  const SyntheticOptions& wanted = options.synthetic;
  if (std::min({wanted.num_classes, wanted.height, wanted.width}) < 1 ||
      std::min(wanted.train_samples, wanted.val_samples) < 1) {
    throw ConfigError(
        fmt::format("[synthetic] sizes: got {} classes, {} and {} pictures of {} x {}, expected 1 or more",
                    wanted.num_classes, wanted.train_samples, wanted.val_samples, wanted.height, wanted.width));
  }
  DatasetPair pair;
  pair.mode = options.mode.value_or(ImageMode::rgb);
  pair.classes = numbered_classes(options, number_names(wanted.num_classes));
  pair.native_height = wanted.height;
  pair.native_width = wanted.width;
  const auto part = [&](uint64_t stream) {
    return std::make_unique<SyntheticDataset>(wanted, stream, pair.classes, pair.mode);
  };
  if (options.open_train) pair.train = part(kTrainStream);
  if (options.open_val) pair.val = part(kValStream);
  return pair;
}

}  // namespace engine::data
