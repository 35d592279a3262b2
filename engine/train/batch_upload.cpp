#include "engine/train/batch_upload.h"

#include <cstring>

#include "engine/core/error.h"
#include "kernels/common/cuda_error.h"

namespace engine {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

BatchUpload::BatchUpload(Device device) : device_(device), copies_(device), slots_{Slot(device), Slot(device)} {}

// A copy may still read the pinned memory.
BatchUpload::~BatchUpload() {
  try {
    copies_.synchronize();
  } catch (const kernels::CudaError&) {
    // The device has failed; nothing reads any more.
  }
}

const DeviceBatch& BatchUpload::upload(const Batch& batch) {
  ENGINE_CHECK(batch.images.is_contiguous() && batch.labels.is_contiguous(),
               "[batch_upload] batch: got strides with gaps, expected contiguous tensors");
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  const int64_t labels_at = aligned(batch.images.bytes());
  fill(slot, batch, labels_at + batch.labels.bytes());
  const Stream& compute = compute_stream(device_);
  slot.copied.hold(compute);
  DeviceBatch& place = place_of(batch);
  copy_async(place.images.raw(), slot.device.raw(), batch.images.bytes(), compute);
  copy_async(place.labels.raw(), slot.device.raw() + labels_at, batch.labels.bytes(), compute);
  slot.consumed.record(compute);
  return place;
}

void BatchUpload::fill(Slot& slot, const Batch& batch, int64_t bytes) {
  // The former copy out of the pinned memory is done.
  slot.copied.synchronize();
  if (slot.host.bytes() < bytes) {
    slot.host = PinnedBuffer(bytes);
    slot.device = Tensor::empty(Shape{bytes}, DType::u8, MemoryCategory::data, device_);
    // The new memory exists in the order of the compute stream only.
    slot.consumed.record(compute_stream(device_));
  }
  std::memcpy(slot.host.data(), batch.images.raw(), static_cast<size_t>(batch.images.bytes()));
  std::memcpy(slot.host.data() + aligned(batch.images.bytes()), batch.labels.raw(),
              static_cast<size_t>(batch.labels.bytes()));
  slot.consumed.hold(copies_);
  copy_async(slot.device.raw(), slot.host.data(), bytes, copies_);
  slot.copied.record(copies_);
}

DeviceBatch& BatchUpload::place_of(const Batch& batch) {
  const Shape& shape = batch.images.shape();
  DeviceBatch& place = places_[std::vector<int64_t>(shape.extents().begin(), shape.extents().end())];
  if (!place.images.defined()) {
    place.images = Tensor::empty(shape, batch.images.dtype(), MemoryCategory::data, device_);
    place.labels = Tensor::empty(batch.labels.shape(), DType::i64, MemoryCategory::data, device_);
  }
  return place;
}

}  // namespace engine
