#include "tests/support/fake_source.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/core/random.h"
#include "tests/support/numeric.h"

namespace engine::testing {

int64_t FakeSource::steps_per_epoch() const { return (options_.samples + global_batch() - 1) / global_batch(); }

void FakeSource::start(int64_t epoch, int64_t first_sample) {
  order_.resize(static_cast<size_t>(options_.samples));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  RandomStream random(5, RandomPurpose::shuffle, static_cast<uint64_t>(epoch));
  for (size_t i = order_.size(); options_.training && i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
  position_ = step_begin_ = step_end_ = first_sample;
  handed_out_.clear();
}

std::optional<Batch> FakeSource::next() {
  if (position_ >= options_.samples) return std::nullopt;
  if (position_ >= step_end_) {
    step_begin_ = position_;
    step_end_ = std::min(step_begin_ + global_batch(), options_.samples);
  }
  const int64_t end = std::min(position_ + options_.batch_size, step_end_);
  Batch batch = batch_of({order_.begin() + position_, order_.begin() + end});
  batch.global_samples = step_end_ - step_begin_;
  batch.last_of_step = end == step_end_;
  position_ = end;
  handed_out_.insert(handed_out_.end(), batch.samples.begin(), batch.samples.end());
  return batch;
}

Batch FakeSource::batch_of(const std::vector<int64_t>& samples) const {
  const Shape picture{options_.size, options_.size, options_.channels};
  const auto count = static_cast<int64_t>(samples.size());
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  for (const int64_t sample : samples) {
    std::vector<float> values = uniform<float>(picture.numel(), static_cast<uint64_t>(sample));
    const int64_t label = sample % options_.classes;
    // Something to learn: the first pixels tell the class.
    values[static_cast<size_t>(label)] += 3;
    if (sample == poisoned_) values[0] = std::numeric_limits<float>::quiet_NaN();
    pixels.insert(pixels.end(), values.begin(), values.end());
    labels.push_back(label);
  }
  Batch batch;
  batch.images = Tensor::from_vector({count, picture[0], picture[1], picture[2]}, pixels);
  batch.labels = Tensor::from_vector({count}, labels);
  batch.samples = samples;
  batch.global_samples = count;
  return batch;
}

}  // namespace engine::testing
