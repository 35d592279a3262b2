#include <gtest/gtest.h>

#include <vector>

#include "kernels/adam/adam.h"
#include "kernels/adam/adam_cuda.h"
#include "tests/kernels/device_update.h"

namespace engine::testing {
namespace {

using kernels::Adam;
using kernels::AdamUpdate;
using kernels::StepState;

template <typename Types>
class AdamDevice : public DeviceTest {
 public:
  using G = typename Types::G;
  using C = typename Types::C;

  struct Reference {
    std::vector<double> w, first, second;
  };

  void expect_trajectory(Adam spec, StepState settings) {
    const FlatLayout layout;
    const float gap = 7;
    settings.lr = static_cast<float>(spec.lr);
    const std::vector<kernels::ParameterChunk> chunks = kernels::parameter_chunks(layout.segments);
    const DeviceArray<kernels::ParameterChunk> table(chunks);
    const std::vector<float> start = layout.values(1, -1, 1, gap), zeros(start.size());
    const DeviceArray<float> master(start), first(zeros), second(zeros);
    const DeviceArray<C> copy(start.size());
    Reference want{converted<double>(start), converted<double>(zeros), converted<double>(zeros)};
    settings.most_skips = kUpdateSteps;  // the skipped one stops nothing
    DeviceStep state(settings);
    spec.step = 0;
    for (int step = 0; step < kUpdateSteps; ++step) {
      const std::vector<G> gradients = step_gradients<G>(layout, step, settings.scaling.scale);
      const DeviceArray<G> device_gradients(gradients);
      const std::vector<float> before[] = {master.read(), first.read(), second.read()};
      state.decide(device_gradients, stream());
      adam_step_cuda(AdamUpdate<G, C>{.state = state.get(),
                                      .chunks = table.data(),
                                      .chunk_count = static_cast<int>(chunks.size()),
                                      .master = master.data(),
                                      .gradients = device_gradients.data(),
                                      .exp_avg = first.data(),
                                      .exp_avg_sq = second.data(),
                                      .compute_copy = copy.data(),
                                      .beta1 = spec.beta1,
                                      .beta2 = spec.beta2,
                                      .eps = spec.eps,
                                      .decoupled = spec.decoupled},
                     stream());
      if (step == kSkippedStep) {
        ExpectSameBits(master.read(), before[0], "weights of a skipped step");
        ExpectSameBits(first.read(), before[1], "exp_avg of a skipped step");
        ExpectSameBits(second.read(), before[2], "exp_avg_sq of a skipped step");
        continue;
      }
      ++spec.step;
      const std::vector<float> values = as_floats(gradients);
      spec.grad_scale = reference_factor(settings, values);
      reference_step(layout, spec, values, want);
    }
    EXPECT_EQ(state.read().applied_steps, kUpdateSteps - 1);
    const double tol = tolerance<float>(kUpdateSteps, OpClass::transcendental);
    const std::vector<float> got = master.read();
    ExpectClose(layout.inside(got), layout.inside(want.w), tol, "weights");
    ExpectClose(layout.inside(first.read()), layout.inside(want.first), tol, "exp_avg");
    ExpectClose(layout.inside(second.read()), layout.inside(want.second), tol, "exp_avg_sq");
    layout.ExpectGaps(got, gap, "weights");
    layout.ExpectGaps(second.read(), 0, "exp_avg_sq");
    ExpectSameBits(as_floats(layout.inside(copy.read())), as_floats(stored<C>(layout.inside(got))), "copy");
  }

 private:
  static void reference_step(const FlatLayout& layout, Adam spec, const std::vector<float>& gradients,
                             Reference& want) {
    const std::vector<double> g = converted<double>(gradients);
    for (const kernels::ParameterSegment& segment : layout.segments) {
      spec.weight_decay = static_cast<double>(segment.weight_decay);
      adam_step_cpu(spec, want.w.data() + segment.offset, g.data() + segment.offset, want.first.data() + segment.offset,
                    want.second.data() + segment.offset, segment.count);
    }
  }
};
TYPED_TEST_SUITE(AdamDevice, AllUpdateTypes);

TYPED_TEST(AdamDevice, FollowsTheReference) {
  this->expect_trajectory({.lr = 0.01}, {});
  this->expect_trajectory({.lr = 0.01, .decoupled = true}, {});
  this->expect_trajectory({.lr = 0.01, .beta1 = 0, .beta2 = 0.95, .eps = 1e-3}, {});
}

TYPED_TEST(AdamDevice, UnscalesAndClips) {
  this->expect_trajectory({.lr = 0.01}, {.clip_norm = 50, .scaling = {.scale = 64}});
  this->expect_trajectory({.lr = 0.01, .decoupled = true}, {.clip_norm = 50, .scaling = {.scale = 64}});
}

/// A weight of 0 after each of some steps with one gradient; a NaN is a gradient that is not finite.
std::vector<float> trajectory(const std::vector<float>& gradients, int64_t applied_before, cudaStream_t stream) {
  const DeviceArray<float> w(std::vector<float>{0}), first(std::vector<float>{0}), second(std::vector<float>{0});
  const DeviceArray<kernels::ParameterChunk> chunks(
      kernels::parameter_chunks(std::vector<kernels::ParameterSegment>{{.count = 1}}));
  DeviceStep state({.lr = 1e-3F, .most_skips = 2, .applied_steps = applied_before});
  std::vector<float> found;
  for (const float value : gradients) {
    const DeviceArray<float> gradient(std::vector<float>{value});
    state.decide(gradient, stream);
    adam_step_cuda(AdamUpdate<float, float>{.state = state.get(),
                                            .chunks = chunks.data(),
                                            .chunk_count = 1,
                                            .master = w.data(),
                                            .gradients = gradient.data(),
                                            .exp_avg = first.data(),
                                            .exp_avg_sq = second.data()},
                   stream);
    found.push_back(w.read()[0]);
  }
  return found;
}

class AdamOnDevice : public DeviceTest {};

// 1 - beta^t for a t at which it is neither close to 0 nor 1, and for one where beta^t vanishes.
TEST_F(AdamOnDevice, CountsFromARestoredStep) {
  for (const int64_t applied : {int64_t{999}, int64_t{10000000}}) {
    double w = 0, first = 0, second = 0;
    const double gradient = 0.5;
    kernels::adam_step_cpu({.step = applied + 1}, &w, &gradient, &first, &second, 1);
    ExpectClose(trajectory({0.5F}, applied, stream()), std::vector<float>{static_cast<float>(w)},
                tolerance<float>(1, OpClass::transcendental));
  }
}

TEST_F(AdamOnDevice, ASkippedStepDoesNotAdvanceTheCount) {
  const std::vector<float> skipped = trajectory({1e-8F, NAN, 1e-8F}, 0, stream());
  const std::vector<float> straight = trajectory({1e-8F, 1e-8F}, 0, stream());
  ExpectSameBits(skipped, {straight[0], straight[0], straight[1]});
}

// The case's 1e-9, at values of about 1e-3.
TEST(Cases, H_NUM_07_AdamsEpsilonOnTheDevice) {
  if (!device_found()) GTEST_SKIP() << "no CUDA device";
  ExpectClose(trajectory({1e-8F, NAN, 1e-8F, 1e-8F}, 0, nullptr),
              std::vector<float>{-0.0005F, -0.0005F, -0.0010F, -0.0015F}, tolerance<float>(1, OpClass::transcendental));
}

}  // namespace
}  // namespace engine::testing
