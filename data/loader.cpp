#include "data/loader.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "engine/core/error.h"
#include "engine/core/log.h"

namespace engine::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A micro-batch that is being filled. The samples are given out under the loader's mutex; each is then written by one
/// thread without it.
struct Slot {
  Tensor images, labels, flips;  // flips: of pictures in bytes
  std::vector<int64_t> samples;
  std::vector<std::exception_ptr> errors;  // one a sample
  int64_t taken = 0;
  int64_t pending = 0;
  int64_t epoch = 0, step = 0, planned_global = 0, end = 0;
  bool last_of_step = false;

  int64_t size() const { return static_cast<int64_t>(samples.size()); }
  bool failed(int64_t i) const { return errors[static_cast<size_t>(i)] != nullptr; }
  int64_t failures() const {
    return std::count_if(errors.begin(), errors.end(), [](const auto& error) { return error != nullptr; });
  }
};
using SlotPointer = std::shared_ptr<Slot>;

SamplerOptions sampler_options(const Dataset& dataset, const LoaderOptions& options) {
  if (options.workers < 0) {
    throw ConfigError(fmt::format("[loader] workers: got {}, expected 0 or more", options.workers));
  }
  return {dataset.size(),   options.batch_size, options.accumulate_steps, options.rank, options.world,
          options.training, options.seed};
}

bool is_skippable(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DataError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

class Loader::Impl {
 public:
  Impl(const Dataset& dataset, const TransformOptions& transform, const LoaderOptions& options);
  ~Impl() { stop(); }

  int64_t most_bytes() const;
  void start(int64_t epoch, int64_t first_sample);
  std::optional<Batch> next();

  const Dataset& dataset_;
  const Transform transform_;
  const LoaderOptions options_;
  Sampler sampler_;
  int64_t position_ = 0;
  double wait_seconds_ = 0;
  std::vector<std::string> skipped_;
  bool bytes_ = false;  // pictures are handed out as u8

 private:
  /// What a thread keeps from picture to picture.
  struct Memory {
    Image image;
    Transform::Scratch scratch;
  };
  struct Work {
    SlotPointer slot;
    int64_t begin, end;
  };

  void refill();
  SlotPointer make_slot(std::vector<int64_t> samples) const;
  void run_worker();
  Work take();
  void fill(const Work& work, Memory& memory) const;
  void fill_one(Slot& slot, int64_t i, Memory& memory) const;
  void wait_for(const SlotPointer& slot);
  void count_step(const Slot& first);
  int64_t kept_of(const Slot& slot) const;
  Batch finish(Slot& slot);
  void report_skipped(const Slot& slot);
  void end_epoch();
  void stop();

  std::mutex mutex_;
  std::condition_variable work_ready_, slot_done_;
  std::deque<SlotPointer> window_;  // guarded by mutex_; the front is handed out next
  size_t filling_ = 0;              // guarded by mutex_; first slot of the window with samples to give out
  bool stopping_ = false;           // guarded by mutex_
  std::vector<std::thread> threads_;

  Memory memory_;  // of the calling thread
  int64_t depth_, grain_;
  int64_t epoch_ = 0, steps_made_ = 0, counted_step_ = -1, step_samples_ = 0, handed_ = 0, skipped_in_epoch_ = 0;
  std::set<int64_t> known_bad_;
};

Loader::Impl::Impl(const Dataset& dataset, const TransformOptions& transform, const LoaderOptions& options)
    : dataset_(dataset),
      transform_(transform, dataset.channels()),
      options_(options),
      sampler_(sampler_options(dataset, options)) {
  // glibc by default keeps up to 64 MiB that a thread has freed, and so a large picture a thread.
  constexpr int kKeptBytes = 4 << 20;
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  const int64_t workers = options.workers, batch = options.batch_size;
  // Every worker has a sample while the front is waited for, and one whole batch is ready behind it.
  depth_ = std::max<int64_t>(2, 2 * workers / batch + 2);
  // Batches of a step are counted together before the first is handed out.
  if (options.on_bad_image == BadImagePolicy::skip) depth_ = std::max(depth_, options.accumulate_steps + 1);
  grain_ = std::clamp<int64_t>(batch / std::max<int64_t>(2 * workers, 1), 1, 8);
  try {
    for (int i = 0; i < options.workers; ++i) threads_.emplace_back([this] { run_worker(); });
  } catch (const std::exception& e) {
    stop();
    throw Error(fmt::format("[loader] workers: got {} ({}), expected {} threads", threads_.size(), e.what(), workers));
  }
}

void Loader::Impl::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

int64_t Loader::Impl::most_bytes() const {
  const int64_t values = int64_t{transform_.height()} * transform_.width() * transform_.channels();
  const auto picture = bytes_ ? values + 1 : values * static_cast<int64_t>(sizeof(float));
  // Those read ahead, and the one that is being worked on.
  return (depth_ + 1) * options_.batch_size * (picture + static_cast<int64_t>(sizeof(int64_t)));
}

void Loader::Impl::start(int64_t epoch, int64_t first_sample) {
  {
    // Threads that still fill a slot of before keep it alive until they are done with it.
    const std::lock_guard lock(mutex_);
    window_.clear();
    filling_ = 0;
  }
  epoch_ = epoch;
  position_ = first_sample;
  handed_ = skipped_in_epoch_ = 0;
  counted_step_ = -1;
  sampler_.start(epoch, first_sample);
  refill();
}

SlotPointer Loader::Impl::make_slot(std::vector<int64_t> samples) const {
  auto slot = std::make_shared<Slot>();
  const auto count = static_cast<int64_t>(samples.size());
  slot->images = Tensor::empty({count, transform_.height(), transform_.width(), transform_.channels()},
                               bytes_ ? DType::u8 : DType::f32, MemoryCategory::data);
  if (bytes_) slot->flips = Tensor::empty({count}, DType::u8, MemoryCategory::data);
  slot->labels = Tensor::empty({count}, DType::i64, MemoryCategory::data);
  for (int64_t i = 0; i < count; ++i) {
    slot->labels.data<int64_t>()[i] = dataset_.label(samples[static_cast<size_t>(i)]);
  }
  slot->errors.resize(samples.size());
  slot->samples = std::move(samples);
  slot->pending = count;
  return slot;
}

void Loader::Impl::refill() {
  while (static_cast<int64_t>(window_.size()) < depth_) {
    std::optional<Sampler::Step> step = sampler_.next();
    if (!step) return;
    if (step->micro_batches.empty()) step->micro_batches.emplace_back();
    for (auto& samples : step->micro_batches) {
      const SlotPointer slot = make_slot(std::move(samples));
      slot->epoch = epoch_;
      slot->step = steps_made_;
      slot->planned_global = step->global_samples;
      slot->end = step->end;
      slot->last_of_step = &samples == &step->micro_batches.back();
      const std::lock_guard lock(mutex_);
      window_.push_back(slot);
    }
    ++steps_made_;
    work_ready_.notify_all();
  }
}

Loader::Impl::Work Loader::Impl::take() {
  while (filling_ < window_.size() && window_[filling_]->taken == window_[filling_]->size()) ++filling_;
  if (filling_ == window_.size()) return {nullptr, 0, 0};
  const SlotPointer& slot = window_[filling_];
  const int64_t begin = slot->taken;
  slot->taken = std::min(begin + grain_, slot->size());
  return {slot, begin, slot->taken};
}

void Loader::Impl::run_worker() {
  Memory memory;
  std::unique_lock lock(mutex_);
  while (true) {
    Work work{nullptr, 0, 0};
    work_ready_.wait(lock, [&] {
      if (!stopping_) work = take();
      return stopping_ || work.slot != nullptr;
    });
    if (stopping_) return;
    lock.unlock();
    fill(work, memory);
    lock.lock();
    work.slot->pending -= work.end - work.begin;
    if (work.slot->pending == 0) slot_done_.notify_one();
  }
}

void Loader::Impl::fill(const Work& work, Memory& memory) const {
  for (int64_t i = work.begin; i < work.end; ++i) {
    std::exception_ptr& error = work.slot->errors[static_cast<size_t>(i)];
    const int64_t sample = work.slot->samples[static_cast<size_t>(i)];
    try {
      fill_one(*work.slot, i, memory);
    } catch (const Error&) {
      error = std::current_exception();
    } catch (const std::bad_alloc&) {
      error = std::make_exception_ptr(
          OutOfMemoryError(fmt::format("[loader] no memory for a picture: {}", escaped(dataset_.name_of(sample)))));
    } catch (const std::exception& e) {
      error = std::make_exception_ptr(
          DataError(fmt::format("[loader] cannot load: {}: {}", escaped(dataset_.name_of(sample)), e.what())));
    }
  }
}

void Loader::Impl::fill_one(Slot& slot, int64_t i, Memory& memory) const {
  const int64_t sample = slot.samples[static_cast<size_t>(i)];
  dataset_.load(sample, memory.image);
  const RandomStream random(options_.seed, RandomPurpose::augment, static_cast<uint64_t>(slot.epoch),
                            static_cast<uint32_t>(sample));
  const int64_t elements = int64_t{transform_.height()} * transform_.width() * transform_.channels();
  if (slot.images.dtype() == DType::f32) {
    transform_.apply(memory.image, random, memory.scratch, slot.images.data<float>() + i * elements);
    return;
  }
  const bool flip = transform_.apply(memory.image, random, memory.scratch, slot.images.data<uint8_t>() + i * elements);
  slot.flips.data<uint8_t>()[i] = flip ? 1 : 0;
}

void Loader::Impl::wait_for(const SlotPointer& slot) {
  const auto begin = Clock::now();
  if (options_.workers == 0) {
    if (slot->pending > 0) fill({slot, 0, slot->size()}, memory_);
    slot->pending = 0;
  } else {
    std::unique_lock lock(mutex_);
    slot_done_.wait(lock, [&] { return slot->pending == 0; });
  }
  wait_seconds_ += seconds_since(begin);
}

int64_t Loader::Impl::kept_of(const Slot& slot) const {
  const int64_t failures = slot.failures(), kept = slot.size() - failures;
  const bool single = kept == 1 && failures > 0 && options_.training && options_.batch_size > 1;
  return single ? 0 : kept;
}

void Loader::Impl::count_step(const Slot& first) {
  if (first.step == counted_step_) return;
  counted_step_ = first.step;
  step_samples_ = first.planned_global;
  if (options_.on_bad_image == BadImagePolicy::error) return;
  for (const SlotPointer& slot : window_) {
    if (slot->step != first.step) break;
    wait_for(slot);
    step_samples_ -= slot->size() - kept_of(*slot);
  }
}

void Loader::Impl::report_skipped(const Slot& slot) {
  for (int64_t i = 0; i < slot.size(); ++i) {
    if (!slot.failed(i)) continue;
    ++skipped_in_epoch_;
    const int64_t sample = slot.samples[static_cast<size_t>(i)];
    if (!known_bad_.insert(sample).second) continue;
    skipped_.push_back(dataset_.name_of(sample));
    log_warn("[loader] picture skipped: {}", message_of(slot.errors[static_cast<size_t>(i)]));
  }
}

Batch Loader::Impl::finish(Slot& slot) {
  report_skipped(slot);
  const int64_t kept = kept_of(slot), bytes = slot.size() > 0 ? slot.images.bytes() / slot.size() : 0;
  if (kept < slot.size()) {
    char* images = slot.images.raw();
    auto* labels = slot.labels.data<int64_t>();
    int64_t to = 0;
    for (int64_t i = 0; i < slot.size(); ++i) {
      if (slot.failed(i)) continue;
      if (to != i) std::memcpy(images + to * bytes, images + i * bytes, static_cast<size_t>(bytes));
      if (slot.flips.defined()) slot.flips.data<uint8_t>()[to] = slot.flips.data<uint8_t>()[i];
      labels[to] = labels[i];
      slot.samples[static_cast<size_t>(to++)] = slot.samples[static_cast<size_t>(i)];
    }
    slot.images = slot.images.narrow(0, 0, kept);
    slot.labels = slot.labels.narrow(0, 0, kept);
    if (slot.flips.defined()) slot.flips = slot.flips.narrow(0, 0, kept);
    slot.samples.resize(static_cast<size_t>(kept));
  }
  handed_ += kept;
  return {.images = std::move(slot.images),
          .labels = std::move(slot.labels),
          .samples = std::move(slot.samples),
          .global_samples = step_samples_,
          .last_of_step = slot.last_of_step,
          .flips = std::move(slot.flips),
          .pixel = transform_.pixel()};
}

void Loader::Impl::end_epoch() {
  position_ = sampler_.options().samples;
  if (skipped_in_epoch_ == 0) return;
  log_warn("[loader] epoch {}: {} pictures skipped", epoch_, skipped_in_epoch_);
  if (handed_ > 0) return;
  throw DataError(fmt::format("[loader] epoch {}: got {} pictures that cannot be read, expected at least one that can",
                              epoch_, skipped_in_epoch_));
}

std::optional<Batch> Loader::Impl::next() {
  refill();
  if (window_.empty()) {
    end_epoch();
    return std::nullopt;
  }
  const SlotPointer slot = window_.front();
  wait_for(slot);
  for (const std::exception_ptr& error : slot->errors) {
    if (!error) continue;
    if (options_.on_bad_image == BadImagePolicy::error || !is_skippable(error)) std::rethrow_exception(error);
  }
  count_step(*slot);
  {
    const std::lock_guard lock(mutex_);
    window_.pop_front();
    if (filling_ > 0) --filling_;
  }
  position_ = slot->end;
  refill();
  return finish(*slot);
}

Loader::Loader(const Dataset& dataset, const TransformOptions& transform, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(dataset, transform, options)) {}
Loader::~Loader() = default;

int64_t Loader::samples() const { return impl_->dataset_.size(); }
int64_t Loader::steps_per_epoch() const { return impl_->sampler_.steps_from(0); }
int64_t Loader::steps_from(int64_t first_sample) const { return impl_->sampler_.steps_from(first_sample); }
void Loader::allow_bytes(bool allowed) { impl_->bytes_ = allowed; }
void Loader::start(int64_t epoch, int64_t first_sample) { impl_->start(epoch, first_sample); }
std::optional<Batch> Loader::next() { return impl_->next(); }
int64_t Loader::most_bytes() const { return impl_->most_bytes(); }
int64_t Loader::position() const { return impl_->position_; }
double Loader::wait_seconds() const { return impl_->wait_seconds_; }
const std::vector<std::string>& Loader::skipped() const { return impl_->skipped_; }

}  // namespace engine::data
