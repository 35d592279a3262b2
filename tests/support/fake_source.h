#pragma once
// A source of random pictures without files or threads.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/train/batch_source.h"

namespace engine::testing {

struct FakeSourceOptions {
  int64_t samples = 20;
  int64_t batch_size = 4;
  int64_t accumulate_steps = 1;
  bool training = true;  // shuffled by epoch
  int64_t size = 6;      // height and width
  int64_t channels = 2;
  int64_t classes = 3;
};

/// Sample i has the same pixels and label in every object and epoch; the order depends on the epoch alone. The last
/// global batch of an epoch may be short.
class FakeSource : public BatchSource {
 public:
  explicit FakeSource(const FakeSourceOptions& options = {}) : options_(options) {}

  int64_t samples() const override { return options_.samples; }
  int64_t steps_per_epoch() const override;
  void start(int64_t epoch, int64_t first_sample) override;
  std::optional<Batch> next() override;
  int64_t position() const override { return step_end_; }
  double wait_seconds() const override { return 0; }

  /// The next batches that hold this sample have NaN in its picture.
  void poison(int64_t sample) { poisoned_ = sample; }
  /// Samples handed out since the last start().
  const std::vector<int64_t>& handed_out() const { return handed_out_; }
  /// The batch of given samples.
  Batch batch_of(const std::vector<int64_t>& samples) const;

 private:
  int64_t global_batch() const { return options_.batch_size * options_.accumulate_steps; }

  FakeSourceOptions options_;
  std::vector<int64_t> order_, handed_out_;
  int64_t position_ = 0;
  int64_t step_begin_ = 0, step_end_ = 0;
  int64_t poisoned_ = -1;
};

}  // namespace engine::testing
