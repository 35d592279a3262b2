// Pictures that are handed out as bytes against those that the processor normalises: the same values, bit for bit, once
// kernels/input has mirrored and normalised them.

#include <gtest/gtest.h>

#include <numeric>

#include "data/loader.h"
#include "engine/core/error.h"
#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

using data::BadImagePolicy;
using data::Dataset;
using data::DatasetOptions;
using data::Image;
using data::ImageMode;
using data::Loader;
using data::LoaderOptions;
using data::TransformKind;
using data::TransformOptions;

/// Random pictures, some of which cannot be read.
class Pictures : public Dataset {
 public:
  Pictures(ImageMode mode, int64_t unreadable) : Dataset({"a", "b", "c"}, mode), unreadable_(unreadable) {
    DatasetOptions options;
    options.kind = "synthetic";
    options.mode = mode;
    options.synthetic = {.train_samples = 23, .num_classes = 3, .height = 37, .width = 29, .seed = 11};
    synthetic_ = data::open_dataset(options).train;
  }
  int64_t size() const override { return synthetic_->size(); }
  int64_t label(int64_t index) const override { return synthetic_->label(index); }
  void load(int64_t index, Image& image) const override {
    if (index % 5 == unreadable_) throw DataError("unreadable");
    synthetic_->load(index, image);
  }
  std::string name_of(int64_t index) const override { return synthetic_->name_of(index); }

 private:
  int64_t unreadable_;
  std::unique_ptr<Dataset> synthetic_;
};

std::vector<float> normalized(const Batch& batch) {
  const Tensor& images = batch.images;
  const kernels::InputSpec spec{.n = images.dim(0),
                                .h = images.dim(1),
                                .w = images.dim(2),
                                .c = static_cast<int>(images.dim(3)),
                                .c_padded = static_cast<int>(images.dim(3)),
                                .pixel = batch.pixel};
  std::vector<float> values(static_cast<size_t>(images.numel()));
  kernels::input_cpu(spec, images.data<uint8_t>(), batch.flips.data<uint8_t>(), values.data());
  return values;
}

TransformOptions transform_of(TransformKind kind, ImageMode mode) {
  TransformOptions options{kind, 24, 26, {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  options.mean.resize(static_cast<size_t>(data::channels_of(mode)));
  options.stddev.resize(static_cast<size_t>(data::channels_of(mode)));
  return options;
}

TEST(Bytes, BecomeTheValuesOfPicturesThatAreNormalised) {
  for (const ImageMode mode : {ImageMode::gray, ImageMode::rgb}) {
    for (const TransformKind kind : {TransformKind::random_crop, TransformKind::center_crop, TransformKind::whole}) {
      for (const int64_t unreadable : {-1, 3}) {
        const Pictures pictures(mode, unreadable);
        const LoaderOptions options{.batch_size = 6,
                                    .workers = 2,
                                    .training = kind == TransformKind::random_crop,
                                    .on_bad_image = BadImagePolicy::skip};
        Loader bytes(pictures, transform_of(kind, mode), options), floats(pictures, transform_of(kind, mode), options);
        bytes.allow_bytes(true);
        bytes.start(1, 0);
        floats.start(1, 0);
        int64_t batches = 0, mirrored = 0;
        while (const auto want = floats.next()) {
          const auto got = bytes.next();
          ASSERT_TRUE(got.has_value());
          ++batches;
          EXPECT_EQ(want->images.dtype(), DType::f32);
          EXPECT_FALSE(want->flips.defined());
          EXPECT_EQ(got->images.dtype(), DType::u8);
          EXPECT_EQ(got->images.shape(), want->images.shape());
          EXPECT_EQ(got->samples, want->samples);
          EXPECT_EQ(got->labels.to_vector<int64_t>(), want->labels.to_vector<int64_t>());
          ASSERT_EQ(got->flips.numel(), want->images.dim(0));
          ExpectSameBits(normalized(*got), want->images.to_vector<float>());
          for (const uint8_t flip : got->flips.to_vector<uint8_t>()) mirrored += flip;
        }
        EXPECT_FALSE(bytes.next().has_value());
        EXPECT_EQ(batches, 4);
        EXPECT_EQ(mirrored > 0, kind == TransformKind::random_crop);
      }
    }
  }
}

TEST(Bytes, AreHandedOutFromTheNextStartOn) {
  const Pictures pictures(ImageMode::rgb, -1);
  Loader loader(pictures, transform_of(TransformKind::center_crop, ImageMode::rgb), {.batch_size = 6});
  loader.start(0, 0);
  EXPECT_EQ(loader.next()->images.dtype(), DType::f32);
  loader.allow_bytes(true);
  EXPECT_EQ(loader.next()->images.dtype(), DType::f32) << "read ahead";
  loader.start(1, 0);
  EXPECT_EQ(loader.next()->images.dtype(), DType::u8);
  loader.allow_bytes(false);
  loader.start(2, 0);
  EXPECT_EQ(loader.next()->images.dtype(), DType::f32);
}

}  // namespace
}  // namespace engine::testing
