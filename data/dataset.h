#pragma once
// Labelled sets of pictures, and the table of those that can be opened by name.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/decode.h"
#include "data/image.h"

namespace engine::data {

/// One part (training or validation) of a set. Constant once made: all members may be called from many threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The label of picture `index`, from 0.
  virtual int64_t label(int64_t index) const = 0;
  /// Reads picture `index` in mode(); `image` is overwritten and its memory reused. Throws DataError that names the
  /// file or record.
  virtual void load(int64_t index, Image& image) const = 0;
  /// The file or record, for messages; not escaped.
  virtual std::string name_of(int64_t index) const = 0;

  Image load(int64_t index) const;
  /// Names in label order.
  const std::vector<std::string>& classes() const { return classes_; }
  ImageMode mode() const { return mode_; }
  int channels() const { return channels_of(mode_); }

 protected:
  Dataset(std::vector<std::string> classes, ImageMode mode) : classes_(std::move(classes)), mode_(mode) {}
  std::vector<std::string> classes_;
  ImageMode mode_;
};

/// For the set `synthetic`: pictures that depend on (seed, index) alone and whose class can be learnt.
struct SyntheticOptions {
  int64_t train_samples = 1280;
  int64_t val_samples = 320;
  int num_classes = 10;
  int height = 224;
  int width = 224;
  uint64_t seed = 0;
};

struct DatasetOptions {
  /// A name of dataset_names().
  std::string kind = "samples";
  /// The folder of the data; not used by samples and synthetic.
  std::string path;
  /// For samples: "digits" (MNIST) or "photos" (hand signs).
  std::string sample_set = "photos";
  /// The set's own mode where absent: gray for mnist and digits, RGB for all others.
  std::optional<ImageMode> mode;
  /// Larger pictures are refused before anything is allocated for them.
  int64_t max_image_pixels = kDefaultMaxImagePixels;
  /// Not empty: the class names, in label order, of the checkpoint that is evaluated. A set with named classes (an
  /// image folder) maps its own onto them and throws DataError for one that is not among them; one with numbered
  /// classes (IDX, CIFAR, synthetic) throws where it has more.
  std::vector<std::string> classes;
  /// Which parts are opened; evaluation needs the validation part only.
  bool open_train = true;
  bool open_val = true;
  SyntheticOptions synthetic;
};

struct DatasetPair {
  std::unique_ptr<Dataset> train;  // null where not asked for
  std::unique_ptr<Dataset> val;    // null where not asked for, or where an image folder has no val/
  std::vector<std::string> classes;
  ImageMode mode = ImageMode::rgb;
  /// Normalisation of the published recipes, one value a channel.
  std::vector<float> mean, stddev;
  /// The size of every picture, 0 where it varies.
  int native_height = 0, native_width = 0;
  /// One line for the start of a run: counts of classes, pictures and ignored files.
  std::string summary;
};

/// Normalize() values used where none are given: MNIST's (0.1307, 0.3081) for gray pictures, CIFAR's own for cifar10
/// and cifar100, ImageNet's for all other RGB pictures.
struct Normalization {
  std::vector<float> mean, stddev;
};
Normalization default_normalization(const std::string& kind, ImageMode mode);

/// Names that open_dataset() knows, in the order of the help text.
std::vector<std::string> dataset_names();

/// Opens a set: reads directories and headers, and whole IDX and CIFAR files. Throws ConfigError for an unknown name or
/// a missing path, DataError for what is missing or damaged.
DatasetPair open_dataset(const DatasetOptions& options);

}  // namespace engine::data
