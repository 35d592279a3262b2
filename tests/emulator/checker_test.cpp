// Each kind of bug, planted, is found in one run, with kernel, thread and line, whatever the schedule; its correct twin
// is silent.

#include "kernels/emulator/checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/emulator/emulator.h"
#include "tests/emulator/planted_kernels.h"
#include "tests/support/device.h"

namespace engine::testing {
namespace {

using emulator::Finding;
using emulator::FindingKind;
using kernels::check_cuda;
using kernels::launch;

constexpr int kBlocks = 4, kCount = kBlocks * kThreads;

/// Over schedule seeds.
class Checker : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
#if !defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "compiled without the hooks of checked mode";
#endif
    emulator::Settings settings;
    settings.schedule_seed = GetParam();
    emulator::configure(settings);
    emulator::enable_checker();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    emulator::disable_checker();
    emulator::configure({});
  }

  cudaStream_t stream() const { return stream_; }
  /// Whatever a fault said belongs to the planted bug.
  static void run() { cudaDeviceSynchronize(); }

  static std::string all() {
    std::string text;
    for (const Finding& finding : emulator::findings()) text += finding.text() + "\n";
    return text;
  }
  static Finding first() { return emulator::finding_count() == 0 ? Finding() : emulator::findings().front(); }
  static void expect_silent() { EXPECT_EQ(emulator::finding_count(), 0u) << all(); }
  /// Exactly this kind; in a kernel of this name and in its file, unless the name is that of a call.
  static void expect_only(FindingKind kind, const std::string& kernel) {
    const std::vector<Finding> found = emulator::findings();
    ASSERT_FALSE(found.empty());
    for (const Finding& finding : found) {
      EXPECT_EQ(finding.kind, kind) << finding.text();
      EXPECT_EQ(finding.kernel, kernel) << finding.text();
      if (!kernel.ends_with("_kernel")) continue;
      EXPECT_TRUE(finding.in_thread) << finding.text();
      EXPECT_TRUE(finding.place.starts_with("tests/emulator/planted_kernels.h:")) << finding.text();
      EXPECT_TRUE(finding.text().starts_with(kernel + ": " + emulator::describe(kind) + ": block ")) << finding.text();
    }
  }

  DeviceArray<float> ones(int count = kCount) { return DeviceArray<float>(std::vector<float>(count, 1)); }
  template <auto kKernel, typename... Arguments>
  void launch_blocks(Arguments... arguments) {
    launch<kKernel>({.grid = kBlocks, .block = kThreads}, stream_, arguments...);
  }

 private:
  cudaStream_t stream_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Seeds, Checker, ::testing::Values(0, 1, 2, 3, 4));

TEST_P(Checker, SharedRaceWithoutBarrier) {
  const auto x = ones(), y = ones();
  launch_blocks<reverse_kernel<true>>(x.data(), y.data());
  run();
  expect_silent();
  launch_blocks<reverse_kernel<false>>(x.data(), y.data());
  run();
  expect_only(FindingKind::shared_race, "reverse_kernel");
}

TEST_P(Checker, SharedRaceWithinAWarp) {
  const auto x = ones(), y = ones();
  launch_blocks<swap_lanes_kernel<true>>(x.data(), y.data());
  launch_blocks<swap_in_halves_kernel<15>>(x.data(), y.data());
  launch_blocks<shuffle_kernel>(x.data(), y.data());
  run();
  expect_silent();
  launch_blocks<swap_in_halves_kernel<16>>(x.data(), y.data());
  run();
  std::string text = all();
  EXPECT_NE(text.find("swap_in_halves_kernel: race on shared memory"), std::string::npos) << text;
  launch_blocks<swap_lanes_kernel<false>>(x.data(), y.data());
  run();
  text = all();
  EXPECT_NE(text.find("swap_lanes_kernel: race on shared memory"), std::string::npos) << text;
  EXPECT_NE(text.find("no barrier of block or warp between"), std::string::npos) << text;
}

TEST_P(Checker, GlobalRaceBetweenBlocks) {
  const auto y = ones();
  launch_blocks<neighbour_kernel<true>>(y.data());
  run();
  expect_silent();
  launch_blocks<neighbour_kernel<false>>(y.data());
  run();
  expect_only(FindingKind::global_race, "neighbour_kernel");
}

TEST_P(Checker, PlainSumOfAllBlocks) {
  const DeviceArray<int> total(std::vector<int>{0});
  launch_blocks<count_kernel<true>>(total.data());
  run();
  expect_silent();
  launch_blocks<count_kernel<false>>(total.data());
  run();
  expect_only(FindingKind::global_race, "count_kernel");
}

TEST_P(Checker, AtomicsOnSharedMemory) {
  const DeviceArray<int> x(std::vector<int>(kCount, 3)), bins(std::vector<int>(8, 0));
  launch_blocks<histogram_kernel>(x.data(), bins.data());
  run();
  expect_silent();
  EXPECT_EQ(bins.read(), (std::vector<int>{0, 0, 0, kCount, 0, 0, 0, 0}));
}

TEST_P(Checker, HalvesOfAWord) {
  const DeviceArray<kernels::Half> x(std::vector<kernels::Half>(kCount, kernels::Half(1.0F))), y(kCount);
  launch_blocks<halves_kernel>(x.data(), y.data());
  run();
  expect_silent();
}

TEST_P(Checker, GlobalRaceWithinABlock) {
  const auto scratch = ones(), y = ones();
  launch_blocks<scratch_kernel<true>>(scratch.data(), y.data());
  run();
  expect_silent();
  launch_blocks<scratch_kernel<false>>(scratch.data(), y.data());
  run();
  expect_only(FindingKind::global_race, "scratch_kernel");
}

TEST_P(Checker, UnwrittenShared) {
  const DeviceArray<float> y(kCount);
  launch_blocks<part_kernel<kThreads>>(y.data());
  launch_blocks<part_kernel<kThreads>>(y.data());
  run();
  expect_silent();
  launch_blocks<part_kernel<kThreads - 1>>(y.data());
  run();
  expect_only(FindingKind::unwritten_shared, "part_kernel");
  EXPECT_EQ(first().thread.x, 255u);
}

TEST_P(Checker, UnwrittenGlobal) {
  const DeviceArray<float> x(kCount), y(kCount), z(kCount);
  check_cuda(cudaMemsetAsync(x.data(), 0, kCount * sizeof(float), stream()), "cudaMemsetAsync");
  launch_blocks<scale_kernel>(x.data(), y.data(), kCount - 1);
  launch_blocks<scale_kernel>(y.data(), z.data(), kCount - 1);
  run();
  expect_silent();
  launch_blocks<scale_kernel>(y.data(), z.data(), kCount);
  run();
  expect_only(FindingKind::unwritten_global, "scale_kernel");
}

TEST_P(Checker, AccumulatedWithoutAStart) {
  const auto x = ones();
  const DeviceArray<float> y(kCount);
  launch_blocks<accumulate_kernel>(x.data(), x.data());
  run();
  expect_silent();
  launch_blocks<accumulate_kernel>(x.data(), y.data());
  run();
  expect_only(FindingKind::unwritten_global, "accumulate_kernel");
}

TEST_P(Checker, OutOfBoundsByOne) {
  const auto x = ones();
  const DeviceArray<float> y(kCount - 1), z(kCount);
  launch_blocks<scale_kernel>(x.data(), y.data(), kCount - 1);
  run();
  expect_silent();
  launch_blocks<scale_kernel>(x.data(), y.data(), kCount);
  run();
  expect_only(FindingKind::out_of_bounds, "scale_kernel");
  const Finding finding = first();
  EXPECT_EQ(finding.block.x, 3u);
  EXPECT_EQ(finding.thread.x, 255u);
  EXPECT_EQ(finding.details, "writes 4 bytes at offset 4092 of an allocation of 4092 bytes");
}

TEST_P(Checker, Misaligned) {
  const auto x = ones(4 * kCount + 4), y = ones(4 * kCount + 4);
  launch_blocks<copy_packs_kernel>(x.data() + 4, y.data());
  run();
  expect_silent();
  launch_blocks<copy_packs_kernel>(x.data() + 1, y.data());
  run();
  expect_only(FindingKind::misaligned, "copy_packs_kernel");
}

TEST_P(Checker, DivergentBarrier) {
  const DeviceArray<float> y(kCount);
  launch_blocks<meet_kernel<kThreads>>(y.data());
  run();
  expect_silent();
  launch_blocks<meet_kernel<128>>(y.data());
  run();
  expect_only(FindingKind::divergent_barrier, "meet_kernel");
}

TEST_P(Checker, HostMemory) {
  const std::vector<float> host(kCount, 1);
  const DeviceArray<float> y(kCount);
  launch_blocks<scale_kernel>(host.data(), y.data(), kCount);
  run();
  expect_only(FindingKind::host_memory, "scale_kernel");
}

TEST_P(Checker, NullPointer) {
  const auto y = ones();
  launch_blocks<scale_kernel>(static_cast<const float*>(nullptr), y.data(), kCount);
  run();
  expect_only(FindingKind::out_of_bounds, "scale_kernel");
}

TEST_P(Checker, IllegalShape) {
  const auto y = ones();
  EXPECT_THROW(launch<scale_kernel>({.grid = 1, .block = 2048}, stream(), y.data(), y.data(), kCount),
               kernels::CudaError);
  ASSERT_EQ(emulator::finding_count(), 1u);
  EXPECT_EQ(first().text(), "scale_kernel: illegal launch shape: grid (1, 1, 1) of blocks (2048, 1, 1)");
}

}  // namespace
}  // namespace engine::testing
