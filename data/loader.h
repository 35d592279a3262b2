#pragma once
// Batches of a data set, read ahead by worker threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "engine/train/batch_source.h"

namespace engine::data {

enum class BadImagePolicy {
  /// next() throws the first (in order) picture's error.
  error,
  /// The sample is left out of its batch, logged once and listed in skipped(); order and pixels of the others stay. A
  /// training batch that shrinks to one sample is emptied (batch norm has no variance of it).
  skip,
};

struct LoaderOptions {
  int64_t batch_size = 32;
  int64_t accumulate_steps = 1;
  int rank = 0;
  int world = 1;
  /// Threads that read ahead; 0 reads in the thread that calls next().
  int workers = 1;
  /// Shuffled, with random crops where the transform has them; else each sample once in order.
  bool training = true;
  uint64_t seed = 0;
  BadImagePolicy on_bad_image = BadImagePolicy::error;
};

/// Order and pixels depend on (seed, epoch, sample) alone, on any number of workers. Reads ahead at most a few batches,
/// whose tensors come from the engine's allocator (category data) and go back to it with their last owner. Sets glibc's
/// malloc, for the whole process, to give back blocks above 4 MiB when they are freed.
///
/// next() throws DataError that names the file or record (OutOfMemoryError where a picture did not fit into memory),
/// and throws it again when called again; also where a whole epoch was skipped. A batch may be empty (n = 0): where all
/// its samples were skipped, or where a last global batch is too short to give this process a share; it still has
/// last_of_step. With `skip`, global_samples leaves out what was skipped in this process.
class Loader : public BatchSource {
 public:
  /// `dataset` must outlive the loader. Throws ConfigError for sizes below 1 and for a transform of other channels.
  Loader(const Dataset& dataset, const TransformOptions& transform, const LoaderOptions& options);
  /// Ends and joins all workers.
  ~Loader() override;

  int64_t samples() const override;
  int64_t steps_per_epoch() const override;
  /// Global batches that start(epoch, first_sample) will hand out.
  int64_t steps_from(int64_t first_sample) const;
  void allow_bytes(bool allowed) override;
  void start(int64_t epoch, int64_t first_sample) override;
  std::optional<Batch> next() override;
  int64_t most_bytes() const override;
  int64_t position() const override;
  double wait_seconds() const override;

  /// Names of the pictures skipped so far, each once.
  const std::vector<std::string>& skipped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine::data
