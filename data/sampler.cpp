#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "engine/core/random.h"
#include "kernels/common/parallel.h"

namespace engine::data {
namespace {

void check_positive(const char* what, int64_t value) {
  if (value < 1) throw ConfigError(fmt::format("[sampler] {}: got {}, expected 1 or more", what, value));
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), int64_t{0});
  RandomStream random(seed, RandomPurpose::shuffle, static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  check_positive("samples", options.samples);
  check_positive("batch size", options.batch_size);
  check_positive("accumulate steps", options.accumulate_steps);
  check_positive("processes", options.world);
  ENGINE_CHECK(options.rank >= 0 && options.rank < options.world, "[sampler] rank: got {}, expected 0 to {}",
               options.rank, options.world - 1);
}

void Sampler::start(int64_t epoch, int64_t first_sample) {
  ENGINE_CHECK(first_sample >= 0 && first_sample <= options_.samples, "[sampler] position: got {}, expected 0 to {}",
               first_sample, options_.samples);
  position_ = first_sample;
  if (options_.training) {
    order_ = epoch_order(options_.samples, options_.seed, epoch);
  } else {
    order_.resize(static_cast<size_t>(options_.samples));
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }
}

int64_t Sampler::micro_batches_of(int64_t count) const {
  const int64_t batch = options_.batch_size, fewest = (count + batch - 1) / batch;
  return batch > 1 && fewest > 1 && count / fewest == 1 ? count / 2 : fewest;
}

bool Sampler::is_left_out(int64_t count) const {
  return options_.training && count == 1 && options_.samples > 1 && global_batch() > 1;
}

Sampler::Step Sampler::step_at(int64_t begin) const {
  const int64_t count = std::min(global_batch(), options_.samples - begin);
  Step step;
  step.end = begin + count;
  if (is_left_out(count)) return step;
  step.global_samples = count;
  const int64_t parts = micro_batches_of(count);
  const kernels::Range own = kernels::share_of(parts, options_.rank, options_.world);
  for (int64_t part = own.begin; part < own.end; ++part) {
    const kernels::Range range = kernels::share_of(count, part, parts);
    step.micro_batches.emplace_back(order_.begin() + begin + range.begin, order_.begin() + begin + range.end);
  }
  return step;
}

std::optional<Sampler::Step> Sampler::next() {
  if (position_ >= options_.samples) return std::nullopt;
  Step step = step_at(position_);
  position_ = step.end;
  if (step.global_samples == 0) return std::nullopt;
  return step;
}

int64_t Sampler::steps_from(int64_t first_sample) const {
  const int64_t left = options_.samples - first_sample, rest = left % global_batch();
  return left / global_batch() + (rest > 0 && !is_left_out(rest) ? 1 : 0);
}

}  // namespace engine::data
