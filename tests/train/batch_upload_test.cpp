#include "engine/train/batch_upload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/core/error.h"
#include "engine/ops/cast.h"
#include "tests/support/accelerator.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

class BatchUploadTest : public AcceleratorTest {};
class WatchedBatchUploadTest : public WatchedAcceleratorTest {};

/// Pictures that are filled with their label, and come out as that from bytes, too.
Batch labelled_batch(int64_t first_label, int64_t count, DType dtype = DType::f32) {
  Batch batch;
  batch.images = Tensor::empty({count, 4, 12, 1}, dtype);
  batch.labels = Tensor::empty(Shape{count}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    batch.labels.data<int64_t>()[i] = first_label + i;
    if (dtype == DType::f32) {
      batch.images.select(0, i).fill(static_cast<double>(first_label + i));
    } else {
      std::memset(batch.images.select(0, i).raw(), static_cast<int>(first_label + i), 48);
    }
    batch.samples.push_back(i);
  }
  return batch;
}

/// Batches of growing and of equal sizes, of bytes and of floats, each behind the other without a wait; then what the
/// device has seen of them.
void expect_pictures_with_their_labels(DType dtype) {
  SCOPED_TRACE(name_of(dtype));
  const Device device = Device::accelerator();
  BatchUpload upload(device, DType::f32);
  constexpr int64_t kRounds = 24, kRows = 5;
  const auto rows_of = [=](int64_t round) { return std::min(kRows, 2 + round); };
  const auto first_of = [](int64_t round) { return 10 * round; };
  // Results are kept on the device, so that nothing waits between two batches.
  const Tensor pictures = Tensor::zeros({kRounds, kRows, 4, 12, 1}, DType::f32, MemoryCategory::data, device);
  const Tensor labels = Tensor::zeros({kRounds, kRows}, DType::i64, MemoryCategory::data, device);
  for (int64_t round = 0; round < kRounds; ++round) {
    Batch batch = labelled_batch(first_of(round), rows_of(round), dtype);
    const DeviceBatch& there = upload.upload(batch);
    pictures.select(0, round).narrow(0, 0, rows_of(round)).copy_from(there.images);
    labels.select(0, round).narrow(0, 0, rows_of(round)).copy_from(there.labels);
    // The host's memory may be used again at once.
    std::memset(batch.images.raw(), 0xFF, static_cast<size_t>(batch.images.bytes()));
    batch.labels.fill(-1);
  }
  const auto seen = pictures.to_vector<float>();
  const auto named = labels.to_vector<int64_t>();
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int64_t i = 0; i < rows_of(round); ++i) {
      const auto at = static_cast<size_t>(round * kRows + i);
      ASSERT_EQ(named[at], first_of(round) + i) << "round " << round;
      for (size_t k = 0; k < 48; ++k) ASSERT_EQ(seen[48 * at + k], static_cast<float>(first_of(round) + i));
    }
  }
}

TEST_F(BatchUploadTest, H_CUDA_04_EachPictureArrivesWithItsLabel) {
  for (const DType dtype : {DType::f32, DType::u8}) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      SCOPED_TRACE(seed);
      const ScheduleScope order(seed);
      expect_pictures_with_their_labels(dtype);
    }
  }
}

// Among what is watched: nothing is copied to memory before the stream has allocated it.
TEST_F(WatchedBatchUploadTest, H_CUDA_04_EachPictureArrivesWithItsLabel) {
  for (const DType dtype : {DType::f32, DType::u8}) expect_pictures_with_their_labels(dtype);
}

TEST_F(WatchedBatchUploadTest, MayGoWhileACopyIsOnItsWay) {
  std::optional<BatchUpload> upload(std::in_place, Device::accelerator(), DType::f32);
  const Tensor images = upload->upload(labelled_batch(1, 4)).images;
  upload.reset();
  EXPECT_EQ(images.to_vector<float>(), labelled_batch(1, 4).images.to_vector<float>());
}

/// Random bytes with a normalisation, some of them to be mirrored.
Batch random_bytes(int64_t count, int64_t channels) {
  Batch batch;
  batch.images = Tensor::empty({count, 7, 9, channels}, DType::u8);
  const std::vector<float> values = uniform<float>(batch.images.numel(), 3, 0, 256);
  for (size_t i = 0; i < values.size(); ++i) batch.images.data<uint8_t>()[i] = static_cast<uint8_t>(values[i]);
  batch.flips = Tensor::from_vector<uint8_t>({count}, {0, 1, 1, 0, 2});
  batch.labels = Tensor::zeros({count}, DType::i64);
  const float mean[] = {0.485F, 0.456F, 0.406F}, stddev[] = {0.229F, 0.224F, 0.225F};
  batch.pixel = kernels::pixel_scale(mean, stddev, static_cast<int>(channels));
  return batch;
}

TEST_F(BatchUploadTest, BytesAreMirroredAndNormalisedIntoTheComputeType) {
  for (const int channels : {1, 3}) {
    for (const bool flipped : {true, false}) {
      Batch batch = random_bytes(5, channels);
      if (!flipped) batch.flips = {};
      for (const DType compute : {DType::f32, DType::f16, DType::bf16}) {
        // A channel of zeros more where FP16 wants it.
        const int padded = channels == 3 && compute == DType::f16 ? 4 : channels;
        const kernels::InputSpec spec{.n = 5, .h = 7, .w = 9, .c = channels, .c_padded = padded, .pixel = batch.pixel};
        std::vector<float> want(static_cast<size_t>(5 * 7 * 9 * padded));
        kernels::input_cpu(spec, batch.images.data<uint8_t>(), flipped ? batch.flips.data<uint8_t>() : nullptr,
                           want.data());
        BatchUpload upload(Device::accelerator(), compute);
        const Tensor images = upload.upload(batch).images;
        EXPECT_EQ(images.dtype(), compute);
        const double tol =
            compute == DType::f32
                ? tolerance<float>(1, OpClass::elementwise)
                : tolerance(compute == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16, 1, OpClass::elementwise);
        ExpectClose(cast(images.to(Device::cpu()), DType::f32).to_vector<float>(), want, tol, name_of(compute));
      }
    }
  }
}

TEST_F(BatchUploadTest, FloatsAreRoundedToTheComputeType) {
  Batch batch;
  const std::vector<float> values = uniform<float>(2 * 3 * 3 * 2, 4);
  batch.images = Tensor::from_vector<float>({2, 3, 3, 2}, values);
  batch.labels = Tensor::zeros({2}, DType::i64);
  for (const DType compute : {DType::f32, DType::f16, DType::bf16}) {
    BatchUpload upload(Device::accelerator(), compute);
    const Tensor images = upload.upload(batch).images.to(Device::cpu());
    EXPECT_EQ(images.dtype(), compute);
    ExpectSameBits(cast(images, DType::f32).to_vector<float>(),
                   cast(cast(batch.images, compute), DType::f32).to_vector<float>());
  }
}

TEST_F(BatchUploadTest, RefusesWhatItCannotSend) {
  BatchUpload upload(Device::accelerator(), DType::f32);
  Batch batch = labelled_batch(0, 4);
  batch.images = Tensor::zeros({4, 4, 4, 3}, DType::f64);
  EXPECT_THROW(upload.upload(batch), Error);
  batch.images = Tensor::zeros({4, 4, 4, 6}).narrow(3, 0, 3);
  EXPECT_THROW(upload.upload(batch), Error);
}

TEST_F(BatchUploadTest, OneShapeHasOnePlace) {
  BatchUpload upload(Device::accelerator(), DType::f32);
  const char* first = upload.upload(labelled_batch(0, 4)).images.raw();
  const char* smaller = upload.upload(labelled_batch(0, 3)).images.raw();
  EXPECT_NE(first, smaller);
  EXPECT_EQ(upload.upload(labelled_batch(9, 4)).images.raw(), first);
  EXPECT_EQ(upload.upload(labelled_batch(9, 3)).images.raw(), smaller);
}

}  // namespace
}  // namespace engine::testing
