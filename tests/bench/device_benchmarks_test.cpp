// The benchmarks of kernels on a device: that each runs, and that their clock stops when the device has finished.

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "bench/support/device.h"
#include "tests/support/accelerator.h"

namespace engine::testing {
namespace {

class DeviceBenchmarks : public AcceleratorTest {};

TEST_F(DeviceBenchmarks, EachRuns) {
  for (const bench::DeviceBenchmark& benchmark : bench::device_benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    const bench::DeviceWork work = benchmark.make();
    EXPECT_TRUE(work.bytes > 0 || work.flops > 0);
    EXPECT_GE(bench::device_seconds(work.enqueue, 1, 0), 0);
  }
}

// scripts/gpu_check.sh picks them by "/cuda_".
TEST(DeviceBenchmarkNames, TellTheDeviceAndDiffer) {
  std::set<std::string> names;
  for (const bench::DeviceBenchmark& benchmark : bench::device_benchmarks()) {
    EXPECT_NE(benchmark.name.find("/cuda_"), std::string::npos) << benchmark.name;
    EXPECT_TRUE(names.insert(benchmark.name).second) << benchmark.name << " twice";
  }
  EXPECT_GE(names.size(), 100U);
}

constexpr int kRuns = 3, kWarmUps = 2;
constexpr std::chrono::milliseconds kWarmUpLength{100};

/// Keeps a stream busy, for longer in warm-ups, and counts what is done.
struct BusyWork {
  std::chrono::milliseconds length;
  int done = 0;

  bench::Enqueue enqueue() {
    return [this](cudaStream_t stream) {
      const auto busy = [](void* work) {
        auto* own = static_cast<BusyWork*>(work);
        std::this_thread::sleep_for(own->done < kWarmUps ? kWarmUpLength : own->length);
        ++own->done;
      };
      kernels::check_cuda(cudaLaunchHostFunc(stream, busy, this), "cudaLaunchHostFunc");
    };
  }
};

bool device_found() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

// The emulated device runs streams as late as it may, so a clock that does not wait finds nothing done.
TEST(Cases, H_OPS_05_TheClockStopsWhenTheDeviceIsDone) {
  if (!device_found()) GTEST_SKIP() << "no device";
  for (const int milliseconds : {2, 4, 8}) {
    BusyWork work{std::chrono::milliseconds(milliseconds)};
    const double seconds = bench::device_seconds(work.enqueue(), kRuns, kWarmUps);
    EXPECT_EQ(work.done, kRuns + kWarmUps) << "back before the device was done";
    EXPECT_GE(seconds, milliseconds / 1e3);
    EXPECT_LT(seconds * kRuns, std::chrono::duration<double>(kWarmUpLength).count()) << "warm-ups were timed";
  }
}

TEST(Cases, H_OPS_05_NothingIsTimedAsNothing) {
  if (!device_found()) GTEST_SKIP() << "no device";
  EXPECT_LT(bench::device_seconds([](cudaStream_t) {}, 1, 0), 1e-3);
}

}  // namespace
}  // namespace engine::testing
