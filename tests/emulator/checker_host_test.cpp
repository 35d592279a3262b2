// Device memory touched by the host's own code: found at once, wherever it happens, while what a program may do is
// silent.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/emulator/checker.h"
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
constexpr size_t kBytes = kCount * sizeof(float);

class CheckerHost : public ::testing::TestWithParam<uint64_t> {
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
    cudaDeviceSynchronize();
    check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    emulator::disable_checker();
    emulator::configure({});
  }

  void scale(const DeviceArray<float>& x, const DeviceArray<float>& y) const {
    launch<scale_kernel>({.grid = kBlocks, .block = kThreads}, stream_, static_cast<const float*>(x.data()), y.data(),
                         int64_t{kCount});
  }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  static std::string all() {
    std::string text;
    for (const Finding& finding : emulator::findings()) text += finding.text() + "\n";
    return text;
  }
  /// One finding, with these words and this file in it.
  static void expect_touch(const char* words) {
    const std::vector<Finding> found = emulator::findings();
    ASSERT_EQ(found.size(), 1U) << all();
    EXPECT_EQ(found[0].kind, FindingKind::device_memory);
    const std::string text = found[0].text();
    for (const char* part : {"host code: device memory touched by the host: ", words,
                             " of an allocation of 4096 bytes on device 0 at tests/emulator/checker_host_test.cpp:"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text << " lacks " << part;
    }
  }

  cudaStream_t stream_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Seeds, CheckerHost, ::testing::Values(0, 1, 2, 3, 4));

TEST_P(CheckerHost, Read) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3));
  const volatile float* const value = x.data() + 4;
  EXPECT_EQ(*value, 3);  // noted, but the program goes on with what is there
  expect_touch("reads at offset 16");
}

TEST_P(CheckerHost, Write) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3));
  *const_cast<volatile float*>(x.data() + 1) = 7;
  EXPECT_EQ(x.read()[1], 7);
  expect_touch("writes at offset 4");
}

TEST_P(CheckerHost, CopyByTheHost) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3)), y(kCount);
  scale(x, y);
  synchronize();
  std::vector<float> host(kCount);
  std::memcpy(host.data(), y.data(), kBytes);
  EXPECT_EQ(host, std::vector<float>(kCount, host[0]));
  expect_touch("reads at offset 0");
}

TEST_P(CheckerHost, AgainAfterAnOperation) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3)), y(kCount);
  const volatile float* const value = x.data();
  EXPECT_EQ(*value, 3);
  scale(x, y);
  synchronize();
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(emulator::finding_count(), 2U) << all();
}

TEST_P(CheckerHost, OtherThreads) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3));
  std::thread loader([&] { EXPECT_EQ(*static_cast<const volatile float*>(x.data() + 2), 3); });
  loader.join();
  expect_touch("reads at offset 8");
}

TEST_P(CheckerHost, HostFunctions) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3)), y(kCount);
  scale(x, y);
  const auto peek = [](void* data) { *static_cast<volatile float*>(data) = 1; };
  check_cuda(cudaLaunchHostFunc(stream_, peek, x.data()), "cudaLaunchHostFunc");
  synchronize();
  expect_touch("writes at offset 0");
}

TEST_P(CheckerHost, WhatIsAllowedIsSilent) {
  std::vector<float> host(kCount, 3);
  const DeviceArray<float> x(host), y(kCount);
  void *pinned = nullptr, *pooled = nullptr;
  check_cuda(cudaHostAlloc(&pinned, kBytes, cudaHostAllocDefault), "cudaHostAlloc");
  for (int round = 0; round < 3; ++round) {
    scale(x, y);
    check_cuda(cudaMallocAsync(&pooled, kBytes, stream_), "cudaMallocAsync");
    check_cuda(cudaMemsetAsync(pooled, 0, kBytes, stream_), "cudaMemsetAsync");
    check_cuda(cudaMemcpyAsync(pooled, y.data(), kBytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
    check_cuda(cudaMemcpyAsync(pinned, pooled, kBytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    check_cuda(cudaFreeAsync(pooled, stream_), "cudaFreeAsync");
    float* const target = y.data();
    emulator::launch_library("fill", stream_, {}, {{target, kBytes}}, [=] { std::fill_n(target, kCount, 2.0F); });
    synchronize();
    std::copy_n(static_cast<float*>(pinned), kCount, host.data());
    check_cuda(cudaMemcpy(x.data(), host.data(), kBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  check_cuda(cudaFreeHost(pinned), "cudaFreeHost");
  EXPECT_EQ(emulator::finding_count(), 0U) << all();
}

TEST_P(CheckerHost, WithoutCheckedModeMemoryIsOpen) {
  const DeviceArray<float> x(std::vector<float>(kCount, 3));
  emulator::disable_checker();
  EXPECT_EQ(*static_cast<const volatile float*>(x.data()), 3);
  emulator::enable_checker();
  EXPECT_EQ(emulator::finding_count(), 0U) << all();
}

}  // namespace
}  // namespace engine::testing
