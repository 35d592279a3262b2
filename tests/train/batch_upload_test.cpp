#include "engine/train/batch_upload.h"

#include <gtest/gtest.h>

#include "engine/core/pinned.h"
#include "tests/support/accelerator.h"

namespace engine::testing {
namespace {

class BatchUploadTest : public AcceleratorTest {};

/// Pictures that are filled with their label.
Batch labelled_batch(int64_t first_label, int64_t count) {
  Batch batch;
  batch.images = Tensor::empty({count, 4, 4, 3});
  batch.labels = Tensor::empty(Shape{count}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    batch.labels.data<int64_t>()[i] = first_label + i;
    batch.images.select(0, i).fill(static_cast<double>(first_label + i));
    batch.samples.push_back(i);
  }
  return batch;
}

TEST_F(BatchUploadTest, H_CUDA_04_EachPictureArrivesWithItsLabel) {
  const Device device = Device::accelerator();
  for (const uint64_t seed : {0, 1, 2}) {
    const ScheduleScope order(seed);
    BatchUpload upload(device);
    constexpr int64_t kRounds = 24, kRows = 5;
    // Results are kept on the device, so that nothing waits between two batches.
    const Tensor pictures = Tensor::zeros({kRounds, kRows, 4, 4, 3}, DType::f32, MemoryCategory::data, device);
    const Tensor labels = Tensor::zeros({kRounds, kRows}, DType::i64, MemoryCategory::data, device);
    for (int64_t round = 0; round < kRounds; ++round) {
      Batch batch = labelled_batch(100 * round, kRows);
      const DeviceBatch& there = upload.upload(batch);
      pictures.select(0, round).copy_from(there.images);
      labels.select(0, round).copy_from(there.labels);
      // The host's memory may be used again at once.
      batch.images.fill(-1);
      batch.labels.fill(-1);
    }
    const auto seen = pictures.to_vector<float>();
    const auto named = labels.to_vector<int64_t>();
    for (int64_t round = 0; round < kRounds; ++round) {
      for (int64_t i = 0; i < kRows; ++i) {
        const auto at = static_cast<size_t>(round * kRows + i);
        ASSERT_EQ(named[at], 100 * round + i);
        for (size_t k = 0; k < 48; ++k) ASSERT_EQ(seen[48 * at + k], static_cast<float>(100 * round + i));
      }
    }
  }
}

TEST_F(BatchUploadTest, OneShapeHasOnePlace) {
  BatchUpload upload(Device::accelerator());
  const char* first = upload.upload(labelled_batch(0, 4)).images.raw();
  const char* smaller = upload.upload(labelled_batch(0, 3)).images.raw();
  EXPECT_NE(first, smaller);
  EXPECT_EQ(upload.upload(labelled_batch(9, 4)).images.raw(), first);
  EXPECT_EQ(upload.upload(labelled_batch(9, 3)).images.raw(), smaller);
}

}  // namespace
}  // namespace engine::testing
