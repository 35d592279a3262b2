// The counts of kernel_reports, where they can be worked out by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/emulator/checker.h"
#include "kernels/emulator/emulator.h"
#include "tests/emulator/planted_kernels.h"
#include "tests/support/device.h"

namespace engine::testing {
namespace {

using emulator::KernelReport;
using kernels::launch;

constexpr int kBlocks = 4, kCount = kBlocks * kThreads;

class CheckerReport : public DeviceTest {
 protected:
  void SetUp() override {
#if !defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "compiled without the hooks of checked mode";
#endif
    DeviceTest::SetUp();
    emulator::enable_checker();
  }
  void TearDown() override {
    DeviceTest::TearDown();
    emulator::disable_checker();
  }
  static DeviceArray<float> ones(int count = kCount) { return DeviceArray<float>(std::vector<float>(count, 1)); }
  KernelReport report(const std::string& name) const {
    synchronize();
    for (const KernelReport& entry : emulator::kernel_reports()) {
      if (entry.name == name) return entry;
    }
    ADD_FAILURE() << "no report of " << name;
    return {};
  }
};

TEST_F(CheckerReport, CoalescedPacks) {
  const auto x = ones(4 * kCount);
  const DeviceArray<float> y(4 * kCount);
  for (int i = 0; i < 2; ++i) {
    launch<copy_packs_kernel>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data());
  }
  const KernelReport r = report("copy_packs_kernel");
  EXPECT_EQ(r.launches, 2);
  EXPECT_EQ(r.block, kThreads);
  EXPECT_EQ(r.bytes_used, 2 * 2 * 16 * kCount);
  EXPECT_EQ(r.sectors, r.bytes_used / 32);
  EXPECT_EQ(r.coalescing(), 1);
  EXPECT_EQ(r.vector_share(), 1);
  EXPECT_EQ(r.bank_conflicts, 1);
  EXPECT_EQ(r.divergence(), 0);
  EXPECT_FALSE(r.header_bytes);
}

TEST_F(CheckerReport, StridedReads) {
  const auto x = ones(8 * kCount);
  const DeviceArray<float> y(kCount);
  launch<gather_kernel<8>>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data());
  const KernelReport r = report("gather_kernel");
  EXPECT_EQ(r.bytes_used, 2 * 4 * kCount);
  EXPECT_EQ(r.sectors, kCount + kCount / 8);  // a sector each to read, eight to a sector to write
  EXPECT_EQ(r.vector_share(), 0);
}

TEST_F(CheckerReport, OneWordForAll) {
  const auto x = ones();
  const DeviceArray<float> y(kCount);
  launch<gather_kernel<0>>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data());
  const KernelReport r = report("gather_kernel");
  EXPECT_EQ(r.bytes_used, 4 * kCount / 32 + 4 * kCount);
  EXPECT_EQ(r.sectors, kCount / 32 + kCount / 8);
}

TEST_F(CheckerReport, BankConflicts) {
  const auto x = ones(1024);
  const DeviceArray<float> y(1024);
  launch<transpose_kernel<33>>({.grid = 1, .block = 1024}, stream(), x.data(), y.data());
  EXPECT_EQ(report("transpose_kernel").bank_conflicts, 1);
  launch<transpose_kernel<34>>({.grid = 1, .block = 1024}, stream(), x.data(), y.data());
  EXPECT_EQ(report("transpose_kernel").bank_conflicts, 2);
  launch<transpose_kernel<32>>({.grid = 1, .block = 1024}, stream(), x.data(), y.data());
  EXPECT_EQ(report("transpose_kernel").bank_conflicts, 32);
}

TEST_F(CheckerReport, WideElementsAreServedInTurns) {
  const auto x = ones(4 * kCount);
  const DeviceArray<float> y(kCount);
  launch<wide_tile_kernel<1>>({.grid = 1, .block = 64}, stream(), x.data(), y.data());
  EXPECT_EQ(report("wide_tile_kernel").bank_conflicts, 1);
  launch<wide_tile_kernel<2>>({.grid = 1, .block = 64}, stream(), x.data(), y.data());
  EXPECT_EQ(report("wide_tile_kernel").bank_conflicts, 2);
}

TEST_F(CheckerReport, BarriersEndRequests) {
  const DeviceArray<float> y(kCount);
  launch<take_turns_kernel>({.grid = kBlocks, .block = kThreads}, stream(), y.data());
  const KernelReport r = report("take_turns_kernel");
  EXPECT_EQ(r.requests, 2 * kCount / 32);
  EXPECT_EQ(r.divergence(), 1);
}

TEST_F(CheckerReport, HalfMasked) {
  const auto x = ones();
  const DeviceArray<float> y(kCount), z(kCount);
  launch<half_masked_kernel>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data(), z.data());
  EXPECT_EQ(report("half_masked_kernel").divergence(), 1.0 / 3);  // of a load and two stores
}

TEST_F(CheckerReport, LastWarpOfOddBlocks) {
  const auto x = ones();
  const DeviceArray<float> y(kCount);
  launch<scale_kernel>({.grid = 2, .block = 40}, stream(), x.data(), y.data(), int64_t{80});
  const KernelReport r = report("scale_kernel");
  EXPECT_EQ(r.block, 40);
  EXPECT_EQ(r.requests, 8);
  EXPECT_EQ(r.divergence(), 0);
  launch<scale_kernel>({.grid = 2, .block = 40}, stream(), x.data(), y.data(), int64_t{70});
  EXPECT_EQ(report("scale_kernel").idle_requests, 2);  // lanes 30 and 31 of block 1; its second warp asks for nothing
}

TEST_F(CheckerReport, AnyOrderOfThreads) {
  const auto x = ones(8 * kCount);
  std::vector<KernelReport> reports;
  for (const uint64_t seed : {0, 1, 2}) {
    synchronize();
    emulator::Settings settings;
    settings.schedule_seed = seed;
    emulator::configure(settings);
    emulator::enable_checker();
    const DeviceArray<float> y(kCount);
    launch<gather_kernel<3>>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data());
    launch<shuffle_kernel>({.grid = kBlocks, .block = kThreads}, stream(), x.data(), y.data());
    for (const char* name : {"gather_kernel", "shuffle_kernel"}) reports.push_back(report(name));
  }
  emulator::configure({});
  for (size_t i = 2; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].sectors, reports[i % 2].sectors);
    EXPECT_EQ(reports[i].bytes_used, reports[i % 2].bytes_used);
    EXPECT_EQ(reports[i].requests, reports[i % 2].requests);
    EXPECT_EQ(reports[i].idle_requests, 0);
    EXPECT_EQ(reports[i].bank_conflicts, 1);
  }
}

}  // namespace
}  // namespace engine::testing
