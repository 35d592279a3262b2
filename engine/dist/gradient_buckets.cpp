#include "engine/dist/gradient_buckets.h"

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/dist/bucket_plan.h"

namespace engine {
namespace {

int64_t bytes_of(double mebibytes) {
  return std::max<int64_t>(1, static_cast<int64_t>(mebibytes * static_cast<double>(1 << 20)));
}

}  // namespace

class GradientBuckets::Step {
 public:
  Step(FlatParameters& parameters, Communicator& processes, DeviceCommunicator* devices, const BucketOptions& options)
      : parameters_(parameters),
        processes_(processes),
        devices_(devices),
        options_(options),
        buckets_(plan_buckets(parameters, bytes_of(options.first_bucket_mb), bytes_of(options.bucket_mb))),
        bucket_of_(parameters.ranges().size()) {
    ENGINE_CHECK(options.shards.size() == 0 || options.shards.count() == parameters.size(),
                 "[buckets] shards: got {} elements, expected {}", options.shards.count(), parameters.size());
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      for (const int parameter : buckets_[bucket].parameters) bucket_of_[static_cast<size_t>(parameter)] = bucket;
      if (devices_ != nullptr) events_.push_back(std::make_unique<Event>(parameters.device()));
    }
    if (devices_ != nullptr) end_ = std::make_unique<Event>(parameters.device());
  }

  void begin() {
    ENGINE_CHECK(requests_.empty(), "[buckets] begin_step: the last step was not finished");
    following_ = false;
    next_ = 0;
  }

  void expect_last() {
    following_ = true;
    ready_.assign(bucket_of_.size(), false);
    unready_.clear();
    for (const Bucket& bucket : buckets_) unready_.push_back(bucket.parameters.size());
  }

  void ready(size_t parameter) {
    if (!following_) return;
    ENGINE_CHECK(!ready_[parameter], "[buckets] {}: got two gradients in one micro-batch, expected one",
                 parameters_.ranges()[parameter].parameter.name);
    ready_[parameter] = true;
    --unready_[bucket_of_[parameter]];
    while (next_ < buckets_.size() && unready_[next_] == 0) send();
  }

  void finish() {
    following_ = false;
    sent_early_ = static_cast<int>(next_);
    fill_missing();
    while (next_ < buckets_.size()) send();
    for (Request& request : requests_) request.wait();
    requests_.clear();
    if (devices_ == nullptr || buckets_.empty()) return;
    end_->record(devices_->stream());
    end_->hold(compute_stream(parameters_.device()));
  }

  int count() const { return static_cast<int>(buckets_.size()); }
  int sent_early() const { return sent_early_; }

 private:
  /// Zeros for parameters without a gradient; valid ones, as the other ranks' gradients will lie there.
  void fill_missing() {
    parameters_.fill_missing_gradients();
    for (const FlatRange& range : parameters_.ranges()) range.parameter.tensor.autograd()->grad_valid = true;
  }

  void send() {
    const Bucket& bucket = buckets_[next_];
    const ParameterRegion& region = parameters_.regions()[static_cast<size_t>(bucket.region)];
    Collective collective{.kind = CollectiveKind::all_reduce,
                          .name = fmt::format("gradients, bucket {} of {}", next_ + 1, buckets_.size()),
                          .buffer = buffer_of(region.gradients.narrow(0, bucket.begin, bucket.end - bucket.begin)),
                          .op = options_.op,
                          .channel = Channel::gradients};
    if (options_.shards.size() > 0) {
      collective.kind = CollectiveKind::reduce_scatter;
      collective.parts = options_.shards.within(region.offset + bucket.begin, region.offset + bucket.end);
    }
    if (devices_ == nullptr) {
      requests_.push_back(processes_.start(std::move(collective)));
    } else {
      Event& event = *events_[next_];
      event.record(compute_stream(parameters_.device()));
      event.hold(devices_->stream());
      devices_->enqueue(std::move(collective), devices_->stream());
    }
    ++next_;
  }

  FlatParameters& parameters_;
  Communicator& processes_;
  DeviceCommunicator* devices_;
  BucketOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<std::unique_ptr<Event>> events_;
  std::unique_ptr<Event> end_;

  bool following_ = false;
  std::vector<bool> ready_;      // by parameter
  std::vector<size_t> unready_;  // parameters, by bucket
  size_t next_ = 0;              // bucket to be sent
  int sent_early_ = 0;
  std::vector<Request> requests_;
};

GradientBuckets::GradientBuckets(FlatParameters& parameters, Communicator& processes, const BucketOptions& options)
    : step_(std::make_shared<Step>(parameters, processes, nullptr, options)) {
  ENGINE_CHECK(parameters.device().is_cpu(), "[buckets] device: got {}, expected cpu", name_of(parameters.device()));
  follow(parameters);
}

GradientBuckets::GradientBuckets(FlatParameters& parameters, DeviceCommunicator& devices, const BucketOptions& options)
    : step_(std::make_shared<Step>(parameters, devices.processes(), &devices, options)) {
  ENGINE_CHECK(!parameters.device().is_cpu(), "[buckets] device: got cpu, expected an accelerator");
  follow(parameters);
}

GradientBuckets::~GradientBuckets() = default;

void GradientBuckets::follow(const FlatParameters& parameters) {
  for (size_t parameter = 0; parameter < parameters.ranges().size(); ++parameter) {
    add_ready_hook(parameters.ranges()[parameter].parameter.tensor, [step = std::weak_ptr(step_), parameter] {
      if (const auto alive = step.lock()) alive->ready(parameter);
    });
  }
}

void GradientBuckets::begin_step() { step_->begin(); }
void GradientBuckets::expect_last() { step_->expect_last(); }
void GradientBuckets::finish() { step_->finish(); }
int GradientBuckets::count() const { return step_->count(); }
int GradientBuckets::sent_early() const { return step_->sent_early(); }

}  // namespace engine
