#include "data/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/data/pictures.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using data::Box;
using data::Image;
using data::ImageMode;
using data::Transform;
using data::TransformKind;
using data::TransformOptions;

const nlohmann::json& golden() {
  static const nlohmann::json document = [] {
    std::ifstream file(source_path("tests/golden/pixels/index.json"));
    return nlohmann::json::parse(file);
  }();
  return document;
}

Image read_source(const nlohmann::json& entry) {
  const auto name = entry["source"].get<std::string>();
  const size_t slash = name.find('/');
  const std::string path = name.starts_with("cases/") ? case_path(name.substr(slash + 1)) : source_path("data/" + name);
  Image image;
  const ImageMode mode = entry["mode"] == "gray" ? ImageMode::gray : ImageMode::rgb;
  data::decode_image_file(path, {mode, data::kDefaultMaxImagePixels}, image);
  return image;
}

Image read_result(const nlohmann::json& entry) {
  nlohmann::json where = entry;
  Image image;
  data::decode_image_file(source_path("tests/golden/pixels/" + entry["result"].get<std::string>()),
                          {entry["mode"] == "gray" ? ImageMode::gray : ImageMode::rgb, data::kDefaultMaxImagePixels},
                          image);
  return image;
}

TransformOptions options_of(TransformKind kind, int crop, int resize, int channels) {
  TransformOptions options{kind, crop, resize, {}, {}};
  options.mean.assign(static_cast<size_t>(channels), 0.0F);
  options.stddev.assign(static_cast<size_t>(channels), 1.0F);
  return options;
}

RandomStream stream(uint32_t sample = 0) { return RandomStream(7, RandomPurpose::augment, 0, sample); }

std::vector<float> apply(const TransformOptions& options, const Image& image, RandomStream random = stream()) {
  const Transform transform(options, image.channels);
  // A guard behind the output shows writes past its end.
  std::vector<float> out(static_cast<size_t>(options.crop * options.crop * image.channels) + 4, -1.0F);
  Transform::Scratch scratch;
  transform.apply(image, random, scratch, out.data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(out.back(), -1.0F);
    out.pop_back();
  }
  return out;
}

/// Pixels of 0..255 from values of 0..1.
std::vector<int> to_pixels(const std::vector<float>& values) {
  std::vector<int> pixels;
  for (const float value : values) pixels.push_back(static_cast<int>(std::lround(value * 255.0F)));
  return pixels;
}

void expect_within_one(const std::vector<int>& got, const Image& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.pixels.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want.pixels[i], 1) << what << " at " << i;
}

std::vector<int> resized_box(const Image& image, const nlohmann::json& entry) {
  const std::vector<int64_t> box = entry["box"];
  const int64_t crop = entry["crop"];
  const std::vector<float> ones(3, 1.0F), zeros(3, 0.0F);
  data::ResampleTask task;
  task.row_bytes = int64_t{image.width} * image.channels;
  task.source = image.pixels.data() + box[0] * task.row_bytes + box[1] * image.channels;
  task.channels = image.channels;
  task.in_height = box[2];
  task.in_width = box[3];
  task.resized_height = task.resized_width = task.height = task.width = crop;
  task.scale = ones.data();
  task.shift = zeros.data();
  std::vector<float> out(static_cast<size_t>(crop * crop * image.channels));
  data::ResampleScratch scratch;
  data::resample(task, scratch, out.data());
  return std::vector<int>(out.begin(), out.end());
}

/// An image whose pixels are all different.
Image ramp(int height, int width, int channels) {
  Image image;
  image.reshape(height, width, channels);
  std::iota(image.pixels.begin(), image.pixels.end(), uint8_t{0});
  return image;
}

TEST(Pixels, AreThoseOfPillow) {
  for (const auto& entry : golden()["pictures"]) {
    const Image source = read_source(entry), want = read_result(entry);
    const std::string what = entry.dump();
    if (entry["kind"] == "decode") {
      expect_within_one(std::vector<int>(source.pixels.begin(), source.pixels.end()), want, what);
    } else if (entry["kind"] == "center") {
      const TransformOptions options =
          options_of(TransformKind::center_crop, entry["crop"], entry["resize"], source.channels);
      expect_within_one(to_pixels(apply(options, source)), want, what);
    } else {
      expect_within_one(resized_box(source, entry), want, what);
    }
  }
}

TEST(Pixels, ResizedSizesAreTorchvisions) {
  for (const std::vector<int> row : golden()["resized_sizes"]) {
    const data::Size size = data::resized_size(row[1], row[0], 256);
    EXPECT_EQ(size.width, row[2]) << row[0] << " x " << row[1];
    EXPECT_EQ(size.height, row[3]) << row[0] << " x " << row[1];
  }
}

TEST(Cases, H_IMG_12_ResizeIsAntialiased) {
  const Image stripes = decode_case("H-IMG-12/stripes_8x8.png", ImageMode::gray);
  const std::vector<int> got = to_pixels(apply(options_of(TransformKind::center_crop, 2, 2, 1), stripes));
  ASSERT_EQ(got.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], i % 2 == 0 ? 73 : 46, 1);

  const Image photo = decode_case("H-IMG-12/size_640x427.jpg");
  const data::Size size = data::resized_size(photo.height, photo.width, 256);
  EXPECT_EQ(size.width, 383);
  EXPECT_EQ(size.height, 256);
  EXPECT_EQ(data::center_offset(size.width, 224), 80);  // 79.5, halves to even
  EXPECT_EQ(data::center_offset(size.height, 224), 16);
}

TEST(Transform, NormalizesByChannel) {
  const Image image = ramp(6, 6, 3);
  TransformOptions options = options_of(TransformKind::whole, 6, 0, 3);
  options.mean = {0.485F, 0.456F, 0.406F};
  options.stddev = {0.229F, 0.224F, 0.225F};
  std::vector<double> want;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const double mean = options.mean[i % 3], deviation = options.stddev[i % 3];
    want.push_back((image.pixels[i] / 255.0 - mean) / deviation);
  }
  ExpectClose(apply(options, image), want, tolerance<float>(1, OpClass::elementwise));
}

TEST(Transform, PicturesOfTheWholeSizeStayAsTheyAre) {
  for (const int channels : {1, 3}) {
    const Image image = ramp(28, 28, channels);
    EXPECT_EQ(to_pixels(apply(options_of(TransformKind::whole, 28, 0, channels), image)),
              std::vector<int>(image.pixels.begin(), image.pixels.end()));
  }
}

TEST(Transform, AConstantPictureStaysConstant) {
  for (const int side : {1, 2, 31, 100, 600}) {
    Image image;
    image.reshape(side, side + 3, 3);
    std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{201});
    for (const int value : to_pixels(apply(options_of(TransformKind::center_crop, 24, 32, 3), image))) {
      ASSERT_EQ(value, 201) << side;
    }
  }
}

TEST(Transform, ExtremeShapesWork) {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{1, 5000}, {5000, 1}, {1, 1}, {2, 3}}) {
    const Image image = ramp(height, width, 3);
    for (const TransformKind kind : {TransformKind::center_crop, TransformKind::random_crop, TransformKind::whole}) {
      for (const float value : apply(options_of(kind, 17, 19, 3), image)) ASSERT_TRUE(value >= 0 && value <= 1);
    }
  }
}

TEST(RandomCrop, HasTorchvisionsDistribution) {
  for (const auto& want : golden()["crops"]) {
    const int width = want["width"], height = want["height"], draws = want["draws"];
    std::array<double, 4> sum{};
    for (int i = 0; i < draws; ++i) {
      RandomStream random = stream(static_cast<uint32_t>(i));
      const Box box = data::random_crop_box(height, width, random);
      ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
      ASSERT_TRUE(box.top + box.height <= height && box.left + box.width <= width);
      const std::array<int, 4> values = {box.top, box.left, box.height, box.width};
      for (size_t k = 0; k < 4; ++k) sum[k] += values[k];
    }
    for (size_t k = 0; k < 4; ++k) {
      // Two means of independent draws: five standard errors of their difference.
      const double error = want["std"][k].get<double>() * std::sqrt(2.0 / draws);
      EXPECT_NEAR(sum[k] / draws, want["mean"][k].get<double>(), 5 * error) << "value " << k << " at " << width;
    }
  }
}

TEST(RandomCrop, FallsBackToTheCentre) {
  RandomStream random = stream();
  const Box wide = data::random_crop_box(10, 1000, random), tall = data::random_crop_box(1000, 10, random);
  EXPECT_EQ((std::array{wide.top, wide.left, wide.height, wide.width}), (std::array{0, 493, 10, 13}));
  EXPECT_EQ((std::array{tall.top, tall.left, tall.height, tall.width}), (std::array{493, 0, 13, 10}));
}

TEST(RandomCrop, FlipsHalfOfThePictures) {
  // A picture that is dark on the left: its crop is darker on the left, or on the right where it was flipped.
  Image image;
  image.reshape(8, 64, 1);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(3 * (i % 64));
  const TransformOptions options = options_of(TransformKind::random_crop, 4, 0, 1);
  int flipped = 0;
  constexpr int kDraws = 2000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const std::vector<float> out = apply(options, image, stream(i));
    ASSERT_NE(out[0], out[3]);
    flipped += out[0] > out[3];
  }
  EXPECT_NEAR(flipped, kDraws / 2, 5 * std::sqrt(kDraws / 4.0));
}

TEST(RandomCrop, AFlippedCropIsTheMirrorOfTheOther) {
  const Image image = ramp(20, 30, 3);
  const std::vector<float> ones(3, 1.0F), zeros(3, 0.0F);
  data::ResampleTask task;
  task.source = image.pixels.data();
  task.row_bytes = 90;
  task.channels = 3;
  task.in_height = 20;
  task.in_width = 30;
  task.resized_height = task.resized_width = task.height = task.width = 7;
  task.scale = ones.data();
  task.shift = zeros.data();
  std::vector<float> straight(7 * 7 * 3), mirrored(7 * 7 * 3);
  data::ResampleScratch scratch;
  data::resample(task, scratch, straight.data());
  task.flip = true;
  data::resample(task, scratch, mirrored.data());
  for (size_t y = 0; y < 7; ++y) {
    for (size_t x = 0; x < 7; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(straight[(y * 7 + x) * 3 + c], mirrored[(y * 7 + 6 - x) * 3 + c]);
      }
    }
  }
}

TEST(Cases, H_REQ_04_NormalizationThatDoesNotFitIsRefused) {
  const auto make = [](const TransformOptions& options, int channels) { return Transform(options, channels); };
  EXPECT_THROW(make(options_of(TransformKind::whole, 28, 0, 3), 1), ConfigError);
  EXPECT_THROW(make(options_of(TransformKind::whole, 28, 0, 1), 3), ConfigError);
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    TransformOptions options = options_of(TransformKind::whole, 28, 0, 1);
    options.stddev[0] = bad;
    EXPECT_THROW(make(options, 1), ConfigError) << bad;
  }
  EXPECT_THROW(make(options_of(TransformKind::center_crop, 224, 223, 1), 1), ConfigError);
  EXPECT_THROW(make(options_of(TransformKind::whole, 0, 0, 1), 1), ConfigError);
}

}  // namespace
}  // namespace engine::testing
