#pragma once
// Which samples make up which batch. Order depends on (seed, epoch) alone; a global batch holds the same samples on any
// number of processes. A last, short global batch is split into as few micro-batches as hold it, of equal size but for
// one sample; none of them has one sample where there are two (with a batch size of 2, one may have three instead).

#include <cstdint>
#include <optional>
#include <vector>

namespace engine::data {

struct SamplerOptions {
  int64_t samples = 0;
  /// Samples of a micro-batch of one process.
  int64_t batch_size = 1;
  /// Micro-batches a step and process.
  int64_t accumulate_steps = 1;
  int rank = 0;
  int world = 1;
  /// Training shuffles. Batch norm has no variance of one sample, so a last global batch of one is left out, unless it
  /// is all there is or a global batch is always one. Evaluation takes each sample once, in order.
  bool training = true;
  uint64_t seed = 0;
};

/// The order of the samples in an epoch: Fisher and Yates' shuffle.
std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch);

class Sampler {
 public:
  /// One global batch as this process sees it.
  struct Step {
    std::vector<std::vector<int64_t>> micro_batches;  // none where the batch is too short to give this process a share
    int64_t global_samples = 0;                       // on all processes
    int64_t end = 0;                                  // position in the epoch behind the batch
  };

  /// Throws ConfigError for sizes below 1.
  explicit Sampler(const SamplerOptions& options);

  /// Begins an epoch at position `first_sample` of its order: 0, or where an interrupted run stopped, whatever its
  /// batch size was.
  void start(int64_t epoch, int64_t first_sample);
  /// The next global batch; the last may be short. None at the end of the epoch.
  std::optional<Step> next();
  /// Global batches from a position to the end of an epoch.
  int64_t steps_from(int64_t first_sample) const;
  const SamplerOptions& options() const { return options_; }

 private:
  int64_t global_batch() const { return options_.batch_size * options_.accumulate_steps * options_.world; }
  Step step_at(int64_t begin) const;
  int64_t micro_batches_of(int64_t count) const;
  bool is_left_out(int64_t count) const;

  SamplerOptions options_;
  std::vector<int64_t> order_;
  int64_t position_ = 0;
};

}  // namespace engine::data
