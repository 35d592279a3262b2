#pragma once
// Pictures and labels on their way to an accelerator, while it computes.

#include <array>
#include <map>
#include <vector>

#include "engine/core/pinned.h"
#include "engine/core/stream.h"
#include "engine/train/batch_source.h"

namespace engine {

/// A micro-batch in the memory of an accelerator, as models take it.
struct DeviceBatch {
  Tensor images;  // [n, h, w, c], normalised, in the compute type; c is kernels::padded_channels() where they came as
                  // bytes
  Tensor labels;  // [n] i64
};

/// Copies batches through two pinned slots on a stream of its own. The destination of all batches of one shape is the
/// same memory, so that recorded work finds each new batch where it found the first: pictures are written there, in the
/// order of the compute stream, when what computes with the former ones is done. What writes them reads the slot
/// itself: kernels/input where they are bytes, else a cast, so that there is no copy on the device, and pictures travel
/// as the bytes that they are. (Recorded work that read the slots would be needed once for each of them.)
class BatchUpload {
 public:
  /// `compute`: f32, f16 or bf16, the type that the model takes.
  BatchUpload(Device device, DType compute);
  ~BatchUpload();

  /// The batch's place; work enqueued on the compute stream from now on finds the batch there, until the next upload of
  /// that shape. The host may reuse the batch's memory at once. Throws Error for a batch that is neither f32 nor u8, or
  /// is not contiguous.
  const DeviceBatch& upload(const Batch& batch);

 private:
  /// Host and device side of one transfer.
  struct Slot {
    explicit Slot(Device where) : copied(where), consumed(where) {}
    PinnedBuffer host;
    Tensor device;
    Event copied;    // to `device`, on the copy stream
    Event consumed;  // from `device`, on the compute stream
  };

  void fill(Slot& slot, const Batch& batch);
  void write_images(const Slot& slot, const Batch& batch, const Tensor& images) const;
  DeviceBatch& place_of(const Batch& batch);

  Device device_;
  DType compute_;
  Stream copies_;
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
  std::map<std::vector<int64_t>, DeviceBatch> places_;  // by the pictures' extents
};

}  // namespace engine
