#pragma once
// Tests of the engine on the accelerator of the build.

#include <gtest/gtest.h>

#include <cstdint>

#include "engine/core/device.h"

namespace engine::testing {

/// Skips by name, with the reason, where the build's accelerator does not work here; otherwise requires that all work
/// is sound when the test ends.
class AcceleratorTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

/// The same with every access of every kernel watched on the emulated device: a test that ends with a finding fails.
class WatchedAcceleratorTest : public AcceleratorTest {
 protected:
  void SetUp() override;
  void TearDown() override;
};

/// Another order of blocks, threads and streams on the emulated device, for as long as it lives; nothing on a GPU.
class ScheduleScope {
 public:
  explicit ScheduleScope(uint64_t seed);
  ~ScheduleScope();
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;
};

}  // namespace engine::testing
