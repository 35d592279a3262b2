// Buckets of gradients on as many processes as the test program has, on the host and on the accelerator.

#include "engine/dist/gradient_buckets.h"

#include <gtest/gtest.h>

#include "engine/autograd/backward.h"
#include "engine/dist/agreement.h"
#include "engine/dist/bucket_plan.h"
#include "engine/nn/layers.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "tests/dist/world.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

constexpr double kTinyMb = 0.0005;  // 524 bytes: the tiny model needs several
constexpr int64_t kShare = 2;       // samples a rank

Tensor pictures(int64_t first, int64_t count, Device device) {
  constexpr int64_t kPixels = kTinySize * kTinySize * kTinyChannels;
  std::vector<float> values;
  for (int64_t sample = first; sample < first + count; ++sample) {
    const auto pixels = uniform<float>(kPixels, static_cast<uint64_t>(sample) + 1);
    values.insert(values.end(), pixels.begin(), pixels.end());
  }
  return Tensor::from_vector<float>({count, kTinySize, kTinySize, kTinyChannels}, values).to(device);
}

void backward_of(Module& model, int64_t first, int64_t count, int64_t all, Device device) {
  std::vector<int64_t> labels;
  for (int64_t sample = first; sample < first + count; ++sample) labels.push_back(sample % kTinyClasses);
  const Tensor target = Tensor::from_vector<int64_t>({count}, labels).to(device);
  backward(
      softmax_cross_entropy(model(pictures(first, count, device)), target, {.normalizer = static_cast<double>(all)}));
}

/// Gradients of one process with all samples.
std::vector<float> gradients_of_one(int64_t samples) {
  const auto model = make_plain_model();
  FlatParameters flat(*model);
  backward_of(*model, 0, samples, samples, Device::cpu());
  flat.fill_missing_gradients();
  return flat.gradients().to_vector<float>();
}

/// Remembers what it is asked for; alone.
class Recorder final : public Communicator {
 public:
  explicit Recorder(int size = 1) : Communicator(0) { place_.size = size; }
  std::unique_ptr<Watch> watch(const std::string&) override { return std::make_unique<Watch>(); }
  void check() override {}
  void fail(const std::string&) override {}
  void close() override {}
  std::vector<Collective> asked;

 protected:
  Request enqueue(Collective collective) override {
    asked.push_back(std::move(collective));
    return {};
  }
};

TEST(BucketPlan, BucketsCoverAllInTheOrderOfBackward) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    const auto model = make_tiny_model();
    const FlatParameters flat(*model, Device::cpu(), compute);
    const auto plan = plan_buckets(flat, 256, 600);
    std::vector<int64_t> ends;
    for (const ParameterRegion& region : flat.regions()) ends.push_back(region.count);
    std::vector<int> seen;
    for (const Bucket& bucket : plan) {
      EXPECT_EQ(bucket.end, ends[static_cast<size_t>(bucket.region)]) << "a gap or an overlap";
      EXPECT_LT(bucket.begin, bucket.end);
      EXPECT_FALSE(bucket.parameters.empty());
      ends[static_cast<size_t>(bucket.region)] = bucket.begin;
      seen.insert(seen.end(), bucket.parameters.begin(), bucket.parameters.end());
    }
    for (const int64_t end : ends) EXPECT_EQ(end, 0);
    EXPECT_GE(plan.size(), 2u);
    std::vector<int> sorted = seen;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], static_cast<int>(i));
    EXPECT_EQ(sorted.size(), flat.ranges().size());
    if (compute == DType::f32) {
      EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
    }
  }
}

TEST(BucketPlan, TheFirstIsSmallAndOneMayHoldAll) {
  const auto model = make_tiny_model();
  const FlatParameters flat(*model);
  // fc.bias is the last parameter: 3 elements in 128 bytes.
  const auto plan = plan_buckets(flat, 1, 1 << 20);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].parameters.size(), 1u);
  EXPECT_EQ(plan[1].parameters.size(), flat.ranges().size() - 1);
  EXPECT_EQ(plan_buckets(flat, 1 << 20, 1 << 20).size(), 1u);
}

TEST(GradientBuckets, NothingIsSentBeforeTheLastMicroBatch) {
  const auto model = make_plain_model();
  FlatParameters flat(*model);
  Recorder recorder;
  GradientBuckets buckets(flat, recorder, {.bucket_mb = kTinyMb, .first_bucket_mb = kTinyMb});
  ASSERT_GE(buckets.count(), 2);
  for (int step = 0; step < 2; ++step) {
    recorder.asked.clear();
    flat.clear_gradients();
    buckets.begin_step();
    backward_of(*model, 0, 2, 6, Device::cpu());
    backward_of(*model, 2, 2, 6, Device::cpu());
    EXPECT_TRUE(recorder.asked.empty());
    buckets.expect_last();
    backward_of(*model, 4, 2, 6, Device::cpu());
    EXPECT_EQ(recorder.asked.size(), static_cast<size_t>(buckets.count()));
    buckets.finish();
    EXPECT_EQ(recorder.asked.size(), static_cast<size_t>(buckets.count()));
    EXPECT_EQ(buckets.sent_early(), buckets.count());
    ExpectClose(flat.gradients().to_vector<float>(), gradients_of_one(6),
                tolerance<float>(6 * kTinySize * kTinySize, OpClass::reduction));
  }
}

TEST(GradientBuckets, OnePastTheOtherInBackwardsOrder) {
  const auto model = make_plain_model();
  FlatParameters flat(*model);
  Recorder recorder;
  GradientBuckets buckets(flat, recorder, {.bucket_mb = kTinyMb, .first_bucket_mb = kTinyMb});
  buckets.begin_step();
  buckets.expect_last();
  backward_of(*model, 0, 1, 1, Device::cpu());
  buckets.finish();
  const char* end = flat.gradients().raw() + flat.gradients().bytes();
  for (const Collective& collective : recorder.asked) {
    const char* begin = static_cast<char*>(collective.buffer.data);
    EXPECT_EQ(begin + collective.buffer.bytes(), end);
    end = begin;
    EXPECT_EQ(collective.kind, CollectiveKind::all_reduce);
  }
  EXPECT_EQ(end, flat.gradients().raw());
}

/// Both kinds of device behind one face.
struct Side {
  explicit Side(Device where) : device(where) {
    if (!device.is_cpu()) devices = connect_devices(world(), device);
  }
  std::unique_ptr<GradientBuckets> buckets(FlatParameters& flat, const BucketOptions& options) const {
    return devices ? std::make_unique<GradientBuckets>(flat, *devices, options)
                   : std::make_unique<GradientBuckets>(flat, world(), options);
  }
  void wait() const {
    if (devices) devices->synchronize(compute_stream(device));
  }
  Device device;
  std::unique_ptr<DeviceCommunicator> devices;
};

class Buckets : public WatchedAcceleratorTest {
 protected:
  static BucketOptions small() { return {.bucket_mb = kTinyMb, .first_bucket_mb = kTinyMb, .op = ReduceOp::sum}; }
  /// One device a process: GPUs must be enough, an emulated device is each process's own.
  static std::optional<Device> accelerator() {
    if (!kernels::kBuiltWithCuda) return Device::accelerator();
    const auto gpus = static_cast<int>(describe_accelerators().size());
    if (gpus < world().place().local_size) return std::nullopt;
    return Device::accelerator(world().place().local_rank);
  }
  static std::vector<Device> places() {
    std::vector<Device> found{Device::cpu()};
    if (const auto device = accelerator()) found.push_back(*device);
    return found;
  }
};

TEST_F(Buckets, SumsAreTheGradientsOfOneProcessWithAllSamples) {
  const int64_t all = kShare * world().size();
  const std::vector<float> want = gradients_of_one(all);
  for (const Device device : places()) {
    const Side side(device);
    const auto model = make_plain_model();
    FlatParameters flat(*model, device);
    const auto buckets = side.buckets(flat, small());
    for (int step = 0; step < 3; ++step) {
      flat.clear_gradients();
      buckets->begin_step();
      buckets->expect_last();
      backward_of(*model, world().rank() * kShare, kShare, all, device);
      buckets->finish();
      side.wait();
      ExpectClose(flat.gradients().to_vector<float>(), want,
                  tolerance<float>(all * kTinySize * kTinySize, OpClass::reduction), name_of(device));
    }
    EXPECT_GE(buckets->sent_early(), 2);
  }
}

TEST_F(Buckets, RanksWithoutSamplesTakePart) {
  for (const Device device : places()) {
    const Side side(device);
    const auto model = make_plain_model();
    FlatParameters flat(*model, device);
    const auto buckets = side.buckets(flat, small());
    const bool has_samples = world().rank() == world().size() - 1;
    flat.clear_gradients();
    buckets->begin_step();
    if (has_samples) {
      buckets->expect_last();
      backward_of(*model, 0, kShare, kShare, device);
    }
    buckets->finish();
    side.wait();
    // A second look for parameters without a gradient finds none.
    flat.fill_missing_gradients();
    ExpectClose(flat.gradients().to_vector<float>(), gradients_of_one(kShare),
                tolerance<float>(kShare * kTinySize * kTinySize, OpClass::reduction), name_of(device));
  }
}

/// Two layers side by side, of which a rank uses one.
class TwoHeads final : public Module {
 public:
  TwoHeads() : first_({.in_features = 4, .out_features = 40}), second_({.in_features = 4, .out_features = 40}) {
    register_child("first", first_);
    register_child("second", second_);
  }
  Tensor forward(const Tensor& x) override { return use_first ? first_(x) : second_(x); }
  Shape describe(const std::string&, const Shape& input, std::vector<LayerDescription>&) const override {
    return input;
  }
  bool use_first = true;

 private:
  Linear first_, second_;
};

TEST_F(Buckets, LayersThatOnlySomeRanksUseEndAlikeOnAll) {
  for (const Device device : places()) {
    const Side side(device);
    TwoHeads model;
    FlatParameters flat(model, device);
    const auto buckets = side.buckets(flat, small());
    ASSERT_GE(buckets->count(), 2);
    model.use_first = world().rank() % 2 == 0;
    flat.clear_gradients();
    buckets->begin_step();
    buckets->expect_last();
    const Tensor ones = Tensor::full({1, 4}, 1).to(device);
    const Tensor upstream = Tensor::full({1, 40}, 1).to(device);
    backward(model(ones), upstream);
    buckets->finish();
    side.wait();
    const int evens = (world().size() + 1) / 2;
    for (const NamedTensor& gradient : flat.gradient_views()) {
      const int users = gradient.name.starts_with("first") ? evens : world().size() - evens;
      for (const float value : gradient.tensor.to_vector<float>()) {
        ASSERT_EQ(value, static_cast<float>(users)) << gradient.name << " on " << name_of(device);
      }
    }
  }
}

TEST_F(Buckets, AShardHasTheBitsOfTheWhole) {
  for (const Device device : places()) {
    const Side side(device);
    const auto reduced = [&](bool sharded) {
      const auto model = make_plain_model();
      FlatParameters flat(*model, device);
      BucketOptions options = small();
      if (sharded) options.shards = Shards::equal(flat.size(), world().size(), FlatParameters::kAlignment);
      const auto buckets = side.buckets(flat, options);
      flat.clear_gradients();
      buckets->begin_step();
      buckets->expect_last();
      backward_of(*model, world().rank() * kShare, kShare, 1, device);
      buckets->finish();
      side.wait();
      return flat.gradients().to_vector<float>();
    };
    const std::vector<float> whole = reduced(false), shard = reduced(true);
    const auto own = Shards::equal(static_cast<int64_t>(whole.size()), world().size(), FlatParameters::kAlignment)
                         .part(world().rank());
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + own.begin, all.begin() + own.end);
    };
    ExpectSameBits(part(shard), part(whole));
  }
}

TEST_F(Buckets, ARecordedStepCommunicatesWithEachReplay) {
  if (!accelerator()) GTEST_SKIP() << "fewer GPUs than processes";
  const Device device = *accelerator();
  const Side side(device);
  const auto model = make_plain_model();
  FlatParameters flat(*model, device);
  const auto buckets = side.buckets(flat, small());
  const int64_t all = kShare * world().size();
  const Tensor images = pictures(world().rank() * kShare, kShare, device);
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < kShare; ++i) classes.push_back((world().rank() * kShare + i) % kTinyClasses);
  const Tensor labels = Tensor::from_vector<int64_t>({kShare}, classes).to(device);
  const auto step = [&] {
    flat.clear_gradients();
    buckets->begin_step();
    buckets->expect_last();
    backward(softmax_cross_entropy((*model)(images), labels, {.normalizer = static_cast<double>(all)}));
    buckets->finish();
  };
  step();
  side.wait();
  const std::vector<float> want = gradients_of_one(all);
  const RecordedWork recorded(compute_stream(device), step);
  for (int replay = 0; replay < 3; ++replay) {
    for (const NamedTensor& gradient : flat.gradient_views()) gradient.tensor.fill(7);
    recorded.replay(compute_stream(device));
    side.wait();
    ExpectClose(flat.gradients().to_vector<float>(), want,
                tolerance<float>(all * kTinySize * kTinySize, OpClass::reduction));
  }
}

TEST_F(Buckets, EveryOrderOfTheStreamsGivesTheSameBits) {
  if (!accelerator()) GTEST_SKIP() << "fewer GPUs than processes";
  std::vector<float> first;
  for (const uint64_t seed : {1, 2, 3}) {
    const ScheduleScope schedule(seed);
    const Side side(*accelerator());
    const auto model = make_plain_model();
    FlatParameters flat(*model, side.device);
    const auto buckets = side.buckets(flat, small());
    flat.clear_gradients();
    buckets->begin_step();
    buckets->expect_last();
    backward_of(*model, world().rank() * kShare, kShare, 1, side.device);
    buckets->finish();
    side.wait();
    const std::vector<float> got = flat.gradients().to_vector<float>();
    if (first.empty()) first = got;
    ExpectSameBits(got, first);
  }
}

}  // namespace
}  // namespace engine::testing
