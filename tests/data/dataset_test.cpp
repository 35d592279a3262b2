#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/openers.h"
#include "tests/data/pictures.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

using data::DatasetOptions;
using data::DatasetPair;
using data::ImageMode;
using data::open_dataset;

/// Options that open a set by name, with the data in this tree.
DatasetOptions options_for(const std::string& name, const TempDir& folder) {
  DatasetOptions options;
  options.kind = name;
  options.path = folder.str();
  if (name == "mnist") options.path = case_path("H-IDX-02/dots");
  if (name == "cifar10") options.path = case_path("H-IDX-03/cifar-10-batches-bin");
  if (name == "cifar100") options.path = case_path("H-IDX-03/cifar-100-binary");
  if (name == "imagefolder") options.path = source_path("data/samples/sign_digits");
  return options;
}

TEST(Datasets, EveryRegisteredSetOpensAndLoads) {
  const TempDir folder;
  ASSERT_GE(data::dataset_names().size(), 6U);
  for (const std::string& name : data::dataset_names()) {
    for (const ImageMode mode : {ImageMode::gray, ImageMode::rgb}) {
      DatasetOptions options = options_for(name, folder);
      options.mode = mode;
      const DatasetPair pair = open_dataset(options);
      ASSERT_NE(pair.train, nullptr) << name;
      EXPECT_EQ(pair.mode, mode) << name;
      EXPECT_EQ(static_cast<int>(pair.mean.size()), channels_of(mode)) << name;
      EXPECT_EQ(pair.mean.size(), pair.stddev.size()) << name;
      EXPECT_EQ(pair.train->classes(), pair.classes) << name;
      EXPECT_NE(pair.summary.find(name_of(mode)), std::string::npos) << pair.summary;
      const int64_t last = pair.train->size() - 1;
      const data::Image image = pair.train->load(last);
      EXPECT_EQ(image.channels, channels_of(mode)) << name;
      EXPECT_EQ(static_cast<int64_t>(image.pixels.size()), image.bytes()) << name;
      EXPECT_LT(pair.train->label(last), static_cast<int64_t>(pair.classes.size())) << name;
      EXPECT_FALSE(pair.train->name_of(last).empty()) << name;
      EXPECT_EQ(image.pixels, pair.train->load(last).pixels) << name;
    }
  }
}

TEST(Datasets, OpenOnlyTheValidationPart) {
  const TempDir folder;
  for (const std::string& name : data::dataset_names()) {
    if (name == "mnist") continue;  // the case has no test files
    DatasetOptions options = options_for(name, folder);
    options.open_train = false;
    const DatasetPair pair = open_dataset(options);
    EXPECT_EQ(pair.train, nullptr) << name;
    ASSERT_NE(pair.val, nullptr) << name;
    EXPECT_GT(pair.val->size(), 0) << name;
  }
}

TEST(Datasets, UnknownNamesAndMissingPathsAreRefused) {
  DatasetOptions options;
  options.kind = "imagenet";
  EXPECT_THROW(open_dataset(options), ConfigError);
  options.kind = "mnist";
  EXPECT_THROW(open_dataset(options), ConfigError);
}

TEST(Samples, AreTheBundledSets) {
  DatasetOptions options;
  options.sample_set = "digits";
  const DatasetPair digits = open_dataset(options);
  EXPECT_EQ(digits.train->size(), 10000);
  EXPECT_EQ(digits.val->size(), 10000);
  EXPECT_EQ(digits.native_height, 28);
  EXPECT_EQ(digits.mode, ImageMode::gray);
  options.sample_set = "photos";
  const DatasetPair photos = open_dataset(options);
  EXPECT_EQ(photos.train->size(), 1000);
  EXPECT_EQ(photos.val->size(), 278);
  EXPECT_EQ(photos.classes.size(), 10U);
  EXPECT_EQ(photos.mode, ImageMode::rgb);
  options.sample_set = "cats";
  EXPECT_THROW(open_dataset(options), ConfigError);
}

TEST(Samples, AllPhotosDecode) {
  const DatasetPair photos = open_dataset({});
  data::Image image;
  for (const data::Dataset* part : {photos.train.get(), photos.val.get()}) {
    for (int64_t i = 0; i < part->size(); ++i) {
      ASSERT_NO_THROW(part->load(i, image)) << part->name_of(i);
      ASSERT_EQ(image.height * image.width, 100 * 100) << part->name_of(i);
    }
  }
}

TEST(Synthetic, DependsOnSeedAndIndexAlone) {
  DatasetOptions options;
  options.kind = "synthetic";
  options.synthetic = {40, 20, 4, 16, 24, 1};
  const DatasetPair one = open_dataset(options), same = open_dataset(options);
  options.synthetic.seed = 2;
  const DatasetPair other = open_dataset(options);
  EXPECT_EQ(one.train->size(), 40);
  EXPECT_EQ(one.val->size(), 20);
  EXPECT_EQ(one.classes.size(), 4U);
  const data::Image image = one.train->load(9);
  EXPECT_EQ(image.height, 16);
  EXPECT_EQ(image.width, 24);
  EXPECT_EQ(one.train->label(9), 1);
  EXPECT_EQ(image.pixels, same.train->load(9).pixels);
  EXPECT_NE(image.pixels, other.train->load(9).pixels);
  EXPECT_NE(image.pixels, one.train->load(8).pixels);
  EXPECT_NE(image.pixels, one.val->load(9).pixels);
}

TEST(Synthetic, ClassesCanBeTold) {
  // The mean of a class's pictures in the validation part is nearest to that of the same class in training.
  DatasetOptions options;
  options.kind = "synthetic";
  options.synthetic = {80, 8, 8, 32, 32, 0};
  const DatasetPair pair = open_dataset(options);
  const auto distance = [](const data::Image& a, const data::Image& b) {
    int64_t sum = 0;
    for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
    return sum;
  };
  for (int64_t v = 0; v < 8; ++v) {
    std::vector<int64_t> distances;
    for (int64_t t = 0; t < 8; ++t) distances.push_back(distance(pair.val->load(v), pair.train->load(t)));
    const int64_t nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    EXPECT_EQ(pair.train->label(nearest), pair.val->label(v));
  }
}

}  // namespace
}  // namespace engine::testing
