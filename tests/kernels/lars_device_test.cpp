#include <gtest/gtest.h>

#include <vector>

#include "kernels/lars/lars.h"
#include "kernels/lars/lars_cuda.h"
#include "tests/kernels/device_update.h"

namespace engine::testing {
namespace {

using kernels::Lars;
using kernels::LarsUpdate;
using kernels::ParameterSegment;
using kernels::StepState;

constexpr double kTrust = 0.02;

/// The tables and workspace of a layout in device memory.
struct LarsTables {
  explicit LarsTables(const std::vector<ParameterSegment>& segments)
      : chunks(kernels::parameter_chunks(segments)),
        tensors(kernels::lars_tensors(segments)),
        workspace(static_cast<size_t>(kernels::lars_workspace_bytes(chunk_count(), tensor_count()))) {}
  int chunk_count() const { return static_cast<int>(chunks.size()); }
  int tensor_count() const { return static_cast<int>(tensors.size()); }

  /// All but the buffers.
  template <typename G, typename C>
  LarsUpdate<G, C> update(const DeviceStep& state) const {
    LarsUpdate<G, C> result;
    result.state = state.get();
    result.chunks = chunks.data();
    result.chunk_count = chunk_count();
    result.tensors = tensors.data();
    result.tensor_count = tensor_count();
    result.trust_coefficient = static_cast<float>(kTrust);
    return result;
  }

  DeviceArray<kernels::ParameterChunk> chunks;
  DeviceArray<kernels::LarsTensor> tensors;
  DeviceArray<char> workspace;
};

template <typename Types>
class LarsDevice : public DeviceTest {
 public:
  using G = typename Types::G;
  using C = typename Types::C;

  void expect_trajectory(Lars spec, StepState settings) {
    const FlatLayout layout;
    const float gap = 7;
    settings.lr = static_cast<float>(spec.lr);
    const LarsTables tables(layout.segments);
    const std::vector<float> start = layout.values(1, -1, 1, gap);
    const DeviceArray<float> master(start), momentum(std::vector<float>(start.size(), NAN));
    const DeviceArray<C> copy(start.size());
    std::vector<double> w = converted<double>(start), sums(start.size());
    settings.most_skips = kUpdateSteps;  // the skipped one stops nothing
    DeviceStep state(settings);
    spec.first_step = true;
    for (int step = 0; step < kUpdateSteps; ++step) {
      const std::vector<G> gradients = step_gradients<G>(layout, step, settings.scaling.scale);
      const DeviceArray<G> device_gradients(gradients);
      const std::vector<float> before = master.read(), momentum_before = momentum.read();
      state.decide(device_gradients, stream());
      LarsUpdate<G, C> update = tables.template update<G, C>(state);
      update.master = master.data();
      update.gradients = device_gradients.data();
      update.momentum_buffer = spec.momentum == 0 ? nullptr : momentum.data();
      update.compute_copy = copy.data();
      update.momentum = static_cast<float>(spec.momentum);
      update.nesterov = spec.nesterov;
      lars_step_cuda(update, tables.workspace.data(), stream());
      if (step == kSkippedStep) {
        ExpectSameBits(master.read(), before, "weights of a skipped step");
        ExpectSameBits(momentum.read(), momentum_before, "momentum of a skipped step");
        continue;
      }
      const std::vector<float> values = as_floats(gradients);
      spec.grad_scale = reference_factor(settings, values);
      reference_step(layout, spec, converted<double>(values), w, sums);
      spec.first_step = false;
    }
    const double tol = kUpdateSteps * tolerance<float>(1, OpClass::elementwise);
    const std::vector<float> got = master.read();
    ExpectClose(layout.inside(got), layout.inside(w), tol, "weights");
    layout.ExpectGaps(got, gap, "weights");
    if (spec.momentum != 0) ExpectClose(layout.inside(momentum.read()), layout.inside(sums), tol, "momentum");
    ExpectSameBits(as_floats(layout.inside(copy.read())), as_floats(stored<C>(layout.inside(got))), "copy");
  }

 private:
  static void reference_step(const FlatLayout& layout, Lars spec, const std::vector<double>& gradients,
                             std::vector<double>& w, std::vector<double>& sums) {
    const auto norm = [](const double* x, int64_t count) {
      return std::sqrt(kernels::sum_of_squares_cpu(x, count).value);
    };
    for (const ParameterSegment& segment : layout.segments) {
      double* weights = w.data() + segment.offset;
      const double* gradient = gradients.data() + segment.offset;
      spec.weight_decay = static_cast<double>(segment.weight_decay);
      spec.ratio = 1;
      if (segment.trust_ratio) {
        spec.ratio = kernels::lars_ratio(norm(weights, segment.count), norm(gradient, segment.count) * spec.grad_scale,
                                         kTrust, spec.weight_decay);
      }
      lars_step_cpu(spec, weights, gradient, sums.data() + segment.offset, segment.count);
    }
  }
};
TYPED_TEST_SUITE(LarsDevice, AllUpdateTypes);

TYPED_TEST(LarsDevice, FollowsTheReference) {
  this->expect_trajectory({.lr = 0.1}, {});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9}, {});
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9, .nesterov = true}, {});
}

TYPED_TEST(LarsDevice, UnscalesAndClips) {
  this->expect_trajectory({.lr = 0.1, .momentum = 0.9}, {.clip_norm = 5, .scaling = {.scale = 64}});
}

class LarsOnDevice : public DeviceTest {
 protected:
  /// One update of tensors of two weights each.
  std::vector<float> updated(const std::vector<float>& w, const std::vector<float>& gradients, float decay,
                             float trust) {
    std::vector<ParameterSegment> segments;
    std::vector<float> flat_w(w.size() / 2 * 8), flat_gradients(flat_w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      if (i % 2 == 0) segments.push_back({static_cast<int64_t>(i) * 4, 2, decay, true});
      flat_w[i / 2 * 8 + i % 2] = w[i];
      flat_gradients[i / 2 * 8 + i % 2] = gradients[i];
    }
    const LarsTables tables(segments);
    const DeviceArray<float> master(flat_w), gradient(flat_gradients);
    DeviceStep state({.lr = 0.1F});
    state.decide(gradient, stream());
    LarsUpdate<float, float> update = tables.update<float, float>(state);
    update.master = master.data();
    update.gradients = gradient.data();
    update.trust_coefficient = trust;
    lars_step_cuda(update, tables.workspace.data(), stream());
    const std::vector<float> found = master.read();
    std::vector<float> result;
    for (size_t i = 0; i < w.size(); ++i) result.push_back(found[i / 2 * 8 + i % 2]);
    return result;
  }
};

TEST_F(LarsOnDevice, H_NUM_08_TrustRatio) {
  ExpectClose(updated({3, 4}, {0.6F, 0.8F}, 1e-4F, 0.001F), std::vector<float>{2.9997F, 3.9996F},
              tolerance<float>(2, OpClass::reduction));
}

TEST_F(LarsOnDevice, H_NUM_08_ZeroNormsGiveARatioOfOne) {
  const std::vector<float> want{0, 0, 3, 4, -0.1F, -0.1F};
  ExpectClose(updated({0, 0, 3, 4, 0, 0}, {0, 0, 0, 0, 1, 1}, 0, 0.001F), want,
              tolerance<float>(2, OpClass::reduction));
}

TEST_F(LarsOnDevice, TensorsOfEachSegmentStandBehindOneAnother) {
  const std::vector<ParameterSegment> segments{{0, 4097, 0.5F, true}, {4104, 0, 0, false}, {4104, 3, 0, false}};
  const std::vector<kernels::LarsTensor> tensors = kernels::lars_tensors(segments);
  const std::vector<kernels::ParameterChunk> chunks = kernels::parameter_chunks(segments);
  ASSERT_EQ(tensors.size(), 3u);
  ASSERT_EQ(chunks.size(), 3u);
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int32_t j = 0; j < tensors[i].chunk_count; ++j) {
      EXPECT_EQ(chunks[static_cast<size_t>(tensors[i].first_chunk + j)].segment, static_cast<int32_t>(i));
    }
  }
}

}  // namespace
}  // namespace engine::testing
