#include "tests/support/accelerator.h"

#include "engine/core/emulation.h"
#include "engine/core/error.h"
#include "engine/core/stream.h"

namespace engine::testing {
namespace {

void set_schedule(uint64_t seed) {
  if constexpr (!kernels::kBuiltWithCuda) {
    compute_stream(Device::accelerator()).synchronize();
    set_emulated_schedule(seed);
  }
}

}  // namespace

void AcceleratorTest::SetUp() {
  try {
    parse_device(kernels::kBuiltWithCuda ? "cuda" : "emulated");
  } catch (const DeviceError& error) {
    GTEST_SKIP() << error.what();
  }
}

void AcceleratorTest::TearDown() {
  if (!IsSkipped()) compute_stream(Device::accelerator()).synchronize();
}

void WatchedAcceleratorTest::SetUp() {
  AcceleratorTest::SetUp();
  if (IsSkipped()) return;
  if constexpr (!kernels::kBuiltWithCuda) start_kernel_check();
}

void WatchedAcceleratorTest::TearDown() {
  if (IsSkipped()) return;
  EXPECT_NO_THROW(compute_stream(Device::accelerator()).synchronize());
  if constexpr (!kernels::kBuiltWithCuda) stop_kernel_check();
}

ScheduleScope::ScheduleScope(uint64_t seed) { set_schedule(seed); }
ScheduleScope::~ScheduleScope() { set_schedule(0); }

}  // namespace engine::testing
