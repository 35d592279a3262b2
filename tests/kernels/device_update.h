#pragma once
// What the tests of the update on the device share: a layout of flat buffers, and the part of a step before the update.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/parameter_chunks.h"
#include "kernels/common/step_state.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_cuda.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {

/// For tests without DeviceTest's fixture.
inline bool device_found() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Types of gradients and of the copy of the weights.
template <typename Gradient, typename Copy>
struct UpdateTypes {
  using G = Gradient;
  using C = Copy;
};
using AllUpdateTypes = ::testing::Types<UpdateTypes<float, float>, UpdateTypes<kernels::Half, kernels::Half>,
                                        UpdateTypes<kernels::BFloat16, kernels::BFloat16>,
                                        UpdateTypes<float, kernels::Half>, UpdateTypes<float, kernels::BFloat16>>;

/// Parameters of several chunks, of just one, of odd sizes, of one element and of none, with two decays; then a gap.
struct FlatLayout {
  std::vector<kernels::ParameterSegment> segments = {
      {0, 9001, 0.01F, true},  {9024, 10, 0, false},  {9056, 1, 0.1F, true},   {9088, 4096, 0.1F, true},
      {13184, 0, 0.1F, false}, {13184, 64, 0, false}, {13248, 31, 0.01F, true}};
  int64_t size = 13312;

  template <typename F>
  void each(F f) const {
    for (const kernels::ParameterSegment& segment : segments) {
      for (int64_t i = segment.offset; i < segment.offset + segment.count; ++i) f(static_cast<size_t>(i));
    }
  }
  /// Numbers in the parameters, `gap` elsewhere.
  std::vector<float> values(uint64_t key, double low, double high, float gap) const {
    const std::vector<float> drawn = uniform<float>(size, key, low, high);
    std::vector<float> result(drawn.size(), gap);
    each([&](size_t i) { result[i] = drawn[i]; });
    return result;
  }
  template <typename T>
  std::vector<T> inside(const std::vector<T>& buffer) const {
    std::vector<T> result;
    each([&](size_t i) { result.push_back(buffer[i]); });
    return result;
  }
  /// Whether all elements between the parameters are `gap`.
  void ExpectGaps(const std::vector<float>& buffer, float gap, const char* what) const {
    std::vector<bool> used(static_cast<size_t>(size));
    each([&](size_t i) { used[i] = true; });
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) {
        ASSERT_EQ(buffer[i], gap) << what << " at " << i;
      }
    }
  }
};

/// The state of a step in device memory.
class DeviceStep {
 public:
  explicit DeviceStep(const kernels::StepState& state) : state_(std::vector<kernels::StepState>{state}) {}

  const kernels::StepState* get() const { return state_.data(); }
  kernels::StepState read() const { return state_.read()[0]; }
  void set_loss(float loss) {
    kernels::check_cuda(cudaMemcpy(&state_.data()->loss, &loss, sizeof(loss), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  /// Behind a step that was not applied.
  void go_on() {
    const int32_t none = 0;
    kernels::check_cuda(cudaMemcpy(&state_.data()->halted, &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  /// Norm and decision for one buffer of gradients.
  template <typename G>
  void decide(const DeviceArray<G>& gradients, cudaStream_t stream) {
    const auto count = static_cast<int64_t>(gradients.size());
    kernels::gradient_norm_partials_cuda(gradients.data(), count, partials_.data(), stream);
    kernels::decide_step_cuda(state_.data(), partials_.data(), kernels::norm_partials(count), stream);
  }

 private:
  DeviceArray<kernels::StepState> state_;
  DeviceArray<kernels::NormPartial> partials_{kernels::kMaxNormPartials};
};

/// The factor of the gradients by the reference: clipping as torch.nn.utils.clip_grad_norm_, and unscaling.
inline double reference_factor(const kernels::StepState& state, const std::vector<float>& gradients) {
  const auto count = static_cast<int64_t>(gradients.size());
  const double scale = static_cast<double>(state.scaling.scale), clip = static_cast<double>(state.clip_norm);
  const double norm = std::sqrt(kernels::sum_of_squares_cpu(gradients.data(), count).value) / scale;
  return (clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0) / scale;
}

/// Steps of a test, of which the third has a gradient that is not finite and is skipped.
inline constexpr int kUpdateSteps = 10, kSkippedStep = 2;

/// Gradients of a step times the loss scale, as the type stores them; 0 in the gaps.
template <typename G>
std::vector<G> step_gradients(const FlatLayout& layout, int step, float loss_scale) {
  std::vector<float> values = layout.values(static_cast<uint64_t>(100 + step), 0.25, 1, 0);
  for (float& value : values) value *= loss_scale;
  if (step == kSkippedStep) values[9000] = std::numeric_limits<float>::infinity();
  return stored<G>(values);
}

}  // namespace engine::testing
