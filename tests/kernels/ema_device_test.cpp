#include <gtest/gtest.h>

#include <vector>

#include "kernels/ema/ema.h"
#include "kernels/ema/ema_cuda.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::EmaPair;
using kernels::StepState;

class EmaDevice : public DeviceTest {};

// One part and several, vectors and single elements, on addresses that vectors can reach and not.
TEST_F(EmaDevice, FollowsTheReferenceAndWaitsWhereSkipped) {
  const int64_t count = 9100;
  const double decay = 0.9;
  const DeviceArray<float> average(uniform<float>(count, 1));
  std::vector<double> want = converted<double>(average.read());
  for (uint64_t step = 0; step < 10; ++step) {
    const DeviceArray<float> weights(uniform<float>(count, 2 + step));
    std::vector<EmaPair> pairs;
    for (const auto& [begin, end] : {std::pair{0, 8195}, {8196, 8197}, {8200, 8200}, {8201, 8300}, {8304, 9100}}) {
      pairs.push_back({weights.data() + begin, average.data() + begin, end - begin});
      if (step == 4) continue;
      const std::vector<double> w = converted<double>(weights.read());
      kernels::ema_update_cpu(decay, w.data() + begin, want.data() + begin, end - begin);
    }
    const DeviceArray<EmaPair> parts(kernels::ema_parts(pairs));
    const DeviceArray<StepState> state(std::vector<StepState>{{.applied = step == 4 ? 0 : 1}});
    kernels::ema_update_cuda(state.data(), decay, parts.data(), static_cast<int>(parts.size()), 0, stream());
  }
  ExpectClose(average.read(), want, 10 * tolerance<float>(1, OpClass::elementwise));
}

}  // namespace
}  // namespace engine::testing
