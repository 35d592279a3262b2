#include <gtest/gtest.h>

#include <vector>

#include "kernels/select/select_cuda.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

using kernels::KeptBuffer;
using kernels::StepState;

class SelectDevice : public DeviceTest {};

// Small and large buffers, whole vectors and not, on addresses that vectors can reach and not.
TEST_F(SelectDevice, RestoresOnlyASkippedStep) {
  for (const int applied : {0, 1}) {
    const std::vector<float> before = uniform<float>(12000, 1), after = uniform<float>(12000, 2);
    const DeviceArray<float> live(before), kept(std::vector<float>(before.size(), 7)), changed(after);
    std::vector<KeptBuffer> buffers;
    std::vector<float> want = after, want_kept(before.size(), 7);
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 64}, {64, 66}, {67, 67}, {71, 200}, {204, 11000}}) {
      buffers.push_back(
          {live.data() + begin, kept.data() + begin, static_cast<int64_t>((end - begin) * sizeof(float))});
      for (size_t i = begin; i < end; ++i) {
        want_kept[i] = before[i];
        if (applied == 0) want[i] = before[i];
      }
    }
    const DeviceArray<KeptBuffer> parts(kernels::kept_parts(buffers));
    const DeviceArray<StepState> state(std::vector<StepState>{{.applied = applied}});
    kernels::keep_cuda(parts.data(), static_cast<int>(parts.size()), 0, stream());
    kernels::check_cuda(
        cudaMemcpyAsync(live.data(), changed.data(), after.size() * sizeof(float), cudaMemcpyDeviceToDevice, stream()),
        "cudaMemcpyAsync");
    kernels::restore_if_skipped_cuda(state.data(), parts.data(), static_cast<int>(parts.size()), 0, stream());
    ExpectSameBits(live.read(), want, "live");
    ExpectSameBits(kept.read(), want_kept, "kept");
  }
}

}  // namespace
}  // namespace engine::testing
