#include <gtest/gtest.h>

#include <vector>

#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_cuda.h"
#include "tests/kernels/device_update.h"

namespace engine::testing {
namespace {

using kernels::Sgd;
using kernels::SgdUpdate;
using kernels::StepState;

template <typename Types>
class SgdDevice : public DeviceTest {
 public:
  using G = typename Types::G;
  using C = typename Types::C;

  struct Buffers {
    DeviceArray<float> master, momentum;
    DeviceArray<C> copy;
  };

  void expect_trajectory(Sgd spec, StepState settings) {
    const FlatLayout layout;
    const float gap = 7;
    settings.lr = static_cast<float>(spec.lr);
    const std::vector<kernels::ParameterChunk> chunks = kernels::parameter_chunks(layout.segments);
    const DeviceArray<kernels::ParameterChunk> table(chunks);
    std::vector<float> start = layout.values(1, -1, 1, gap);
    // What the first step finds in the momentum must not matter.
    const Buffers on{DeviceArray<float>(start), DeviceArray<float>(std::vector<float>(start.size(), NAN)),
                     DeviceArray<C>(start.size())};
    std::vector<double> w = converted<double>(start), momentum(start.size());
    settings.most_skips = kUpdateSteps;  // the skipped one stops nothing
    DeviceStep state(settings);
    bool first = true;
    for (int step = 0; step < kUpdateSteps; ++step) {
      const std::vector<G> gradients = step_gradients<G>(layout, step, settings.scaling.scale);
      const DeviceArray<G> device_gradients(gradients);
      const std::vector<float> before = on.master.read(), momentum_before = on.momentum.read();
      state.decide(device_gradients, stream());
      sgd_step_cuda(SgdUpdate<G, C>{.state = state.get(),
                                    .chunks = table.data(),
                                    .chunk_count = static_cast<int>(chunks.size()),
                                    .master = on.master.data(),
                                    .gradients = device_gradients.data(),
                                    .momentum_buffer = spec.momentum == 0 ? nullptr : on.momentum.data(),
                                    .compute_copy = on.copy.data(),
                                    .momentum = static_cast<float>(spec.momentum),
                                    .nesterov = spec.nesterov},
                    stream());
      if (step == kSkippedStep) {
        EXPECT_EQ(state.read().applied, 0);
        ExpectSameBits(on.master.read(), before, "weights of a skipped step");
        ExpectSameBits(on.momentum.read(), momentum_before, "momentum of a skipped step");
        continue;
      }
      const std::vector<float> values = as_floats(gradients);
      reference_step(layout, spec, reference_factor(settings, values), first, values, w, momentum);
      first = false;
    }
    EXPECT_EQ(state.read().applied_steps, kUpdateSteps - 1);
    const double tol = kUpdateSteps * tolerance<float>(1, OpClass::elementwise);
    const std::vector<float> got = on.master.read();
    ExpectClose(layout.inside(got), layout.inside(w), tol, "weights");
    layout.ExpectGaps(got, gap, "weights");
    if (spec.momentum != 0) ExpectClose(layout.inside(on.momentum.read()), layout.inside(momentum), tol, "momentum");
    ExpectSameBits(as_floats(layout.inside(on.copy.read())), as_floats(stored<C>(layout.inside(got))), "copy");
  }

 private:
  static void reference_step(const FlatLayout& layout, Sgd spec, double factor, bool first,
                             const std::vector<float>& gradients, std::vector<double>& w,
                             std::vector<double>& momentum) {
    const std::vector<double> g = converted<double>(gradients);
    spec.grad_scale = factor;
    spec.first_step = first;
    for (const kernels::ParameterSegment& segment : layout.segments) {
      spec.weight_decay = static_cast<double>(segment.weight_decay);
      sgd_step_cpu(spec, w.data() + segment.offset, g.data() + segment.offset, momentum.data() + segment.offset,
                   segment.count);
    }
  }
};
TYPED_TEST_SUITE(SgdDevice, AllUpdateTypes);

TYPED_TEST(SgdDevice, FollowsTheReference) {
  this->expect_trajectory({.lr = 0.1}, {});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9}, {});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9, .nesterov = true}, {});
}

TYPED_TEST(SgdDevice, UnscalesAndClips) {
  this->expect_trajectory({.lr = 0.1}, {.scaling = {.scale = 64}});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9}, {.clip_norm = 5});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9, .nesterov = true}, {.clip_norm = 5, .scaling = {.scale = 64}});
}

// The gradient carries the loss scale; norm and clipping factor are taken of the unscaled one.
class SgdCase : public DeviceTest {};
TEST_F(SgdCase, H_NUM_04_UnscaleThenClipThenStep) {
  const DeviceArray<float> gradients(std::vector<float>{1.2F * 65536, 1.6F * 65536}), w(std::vector<float>{0, 0});
  const DeviceArray<kernels::ParameterChunk> chunks(
      kernels::parameter_chunks(std::vector<kernels::ParameterSegment>{{.count = 2}}));
  DeviceStep state({.lr = 0.1F, .clip_norm = 1, .scaling = {.scale = 65536}});
  state.decide(gradients, stream());
  sgd_step_cuda(SgdUpdate<float, float>{.state = state.get(),
                                        .chunks = chunks.data(),
                                        .chunk_count = 1,
                                        .master = w.data(),
                                        .gradients = gradients.data()},
                stream());
  const double tol = tolerance<float>(2, OpClass::reduction);
  ExpectClose(std::vector<float>{state.read().grad_norm}, std::vector<float>{2}, tol, "norm");
  ExpectClose(w.read(), std::vector<float>{-0.06F, -0.08F}, tol, "w");
}

}  // namespace
}  // namespace engine::testing
