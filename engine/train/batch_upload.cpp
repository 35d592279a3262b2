#include "engine/train/batch_upload.h"

#include <cstring>
#include <exception>

#include "engine/core/error.h"
#include "engine/ops/device_path.h"
#include "kernels/cast/cast_cuda.h"
#include "kernels/input/input_cuda.h"

namespace engine {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Where the parts of a batch lie in a slot.
struct Layout {
  int64_t labels, flips, bytes;
};

Layout layout_of(const Batch& batch) {
  const int64_t labels = aligned(batch.images.bytes()), flips = labels + aligned(batch.labels.bytes());
  return {labels, flips, flips + (batch.flips.defined() ? batch.flips.bytes() : 0)};
}

void copy_to(char* target, const Tensor& tensor) {
  std::memcpy(target, tensor.raw(), static_cast<size_t>(tensor.bytes()));
}

}  // namespace

BatchUpload::BatchUpload(Device device, DType compute)
    : device_(device), compute_(compute), copies_(device), slots_{Slot(device), Slot(device)} {}

// A copy may still read the pinned memory.
BatchUpload::~BatchUpload() {
  try {
    copies_.synchronize();
  } catch (const std::exception&) {
    // The device has failed; nothing reads any more.
  }
}

const DeviceBatch& BatchUpload::upload(const Batch& batch) {
  const DType dtype = batch.images.dtype();
  ENGINE_CHECK(batch.images.is_contiguous() && batch.labels.is_contiguous(),
               "[batch_upload] batch: got strides with gaps, expected contiguous tensors");
  ENGINE_CHECK(dtype == DType::f32 || dtype == DType::u8, "[batch_upload] images: got {}, expected f32 or u8",
               name_of(dtype));
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  fill(slot, batch);
  const Stream& compute = compute_stream(device_);
  slot.copied.hold(compute);
  DeviceBatch& place = place_of(batch);
  write_images(slot, batch, place.images);
  copy_async(place.labels.raw(), slot.device.raw() + layout_of(batch).labels, batch.labels.bytes(), compute);
  slot.consumed.record(compute);
  return place;
}

void BatchUpload::fill(Slot& slot, const Batch& batch) {
  const Layout layout = layout_of(batch);
  // The former copy out of the pinned memory is done.
  slot.copied.synchronize();
  if (slot.host.bytes() < layout.bytes) {
    slot.host = PinnedBuffer(layout.bytes);
    slot.device = Tensor::empty(Shape{layout.bytes}, DType::u8, MemoryCategory::data, device_);
    // The new memory exists in the order of the compute stream only.
    slot.consumed.record(compute_stream(device_));
  }
  copy_to(slot.host.data(), batch.images);
  copy_to(slot.host.data() + layout.labels, batch.labels);
  if (batch.flips.defined()) copy_to(slot.host.data() + layout.flips, batch.flips);
  slot.consumed.hold(copies_);
  copy_async(slot.device.raw(), slot.host.data(), layout.bytes, copies_);
  slot.copied.record(copies_);
}

void BatchUpload::write_images(const Slot& slot, const Batch& batch, const Tensor& images) const {
  const cudaStream_t stream = stream_of(images);
  dispatch_device(compute_, "batch_upload", [&]<typename T>() {
    if (batch.images.dtype() == DType::f32) {
      kernels::cast_cuda(reinterpret_cast<const float*>(slot.device.raw()), images.data<T>(), images.numel(), stream);
      return;
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(slot.device.raw());
    const auto channels = static_cast<int>(batch.images.dim(3));
    const kernels::InputSpec spec{.n = batch.images.dim(0),
                                  .h = batch.images.dim(1),
                                  .w = batch.images.dim(2),
                                  .c = channels,
                                  .c_padded = static_cast<int>(images.dim(3)),
                                  .pixel = batch.pixel};
    const uint8_t* flips = batch.flips.defined() ? bytes + layout_of(batch).flips : nullptr;
    kernels::input_cuda(spec, bytes, flips, images.data<T>(), stream);
  });
}

DeviceBatch& BatchUpload::place_of(const Batch& batch) {
  const auto given = batch.images.shape().extents();
  std::vector<int64_t> extents(given.begin(), given.end());
  if (batch.images.dtype() == DType::u8) {
    extents.back() = kernels::padded_channels(extents.back(), element_type_of(compute_, "batch_upload"));
  }
  DeviceBatch& place = places_[extents];
  if (!place.images.defined()) {
    place.images = Tensor::empty(Shape(extents), compute_, MemoryCategory::data, device_);
    place.labels = Tensor::empty(batch.labels.shape(), DType::i64, MemoryCategory::data, device_);
  }
  return place;
}

}  // namespace engine
