#pragma once
// Where the trainer gets its pictures from; data/loader.h implements it.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/tensor.h"
#include "kernels/input/input.h"

namespace engine {

/// One micro-batch of this process.
struct Batch {
  Tensor images;                 // [n, h, w, c]: f32, normalised, or u8, to be mirrored and normalised (kernels/input)
  Tensor labels;                 // [n] i64, from 0
  std::vector<int64_t> samples;  // the n indices in the data set
  int64_t global_samples = 0;    // samples of the global batch that this one is a part of
  bool last_of_step = true;      // the optimizer steps after it
  Tensor flips{};                // with u8: [n] u8, not 0 for pictures to be mirrored; undefined for none
  kernels::PixelScale pixel{};   // with u8: how they are normalised
};

/// Hands out the batches of one epoch after another. Not thread safe; may have threads of its own.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Samples of the data set, on all processes.
  virtual int64_t samples() const = 0;
  /// Global batches of a whole epoch.
  virtual int64_t steps_per_epoch() const = 0;
  /// From the next start() on pictures may be u8, as accelerators take them; not so at first. A source without them
  /// goes on as it is.
  virtual void allow_bytes(bool allowed) { (void)allowed; }
  /// Begins an epoch at the global batch that starts with its sample `first_sample`.
  virtual void start(int64_t epoch, int64_t first_sample) = 0;
  /// Memory that its batches take at most at once, those that were handed out in turn included; 0 where it is not
  /// known.
  virtual int64_t most_bytes() const { return 0; }
  /// The next micro-batch; none at the end of the epoch. Throws DataError.
  virtual std::optional<Batch> next() = 0;
  /// Samples of the epoch handed out so far by all processes, up to the end of the last batch's step.
  virtual int64_t position() const = 0;
  /// Seconds that next() has waited for pictures since the source was made.
  virtual double wait_seconds() const = 0;
};

}  // namespace engine
