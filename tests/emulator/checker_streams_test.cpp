// Order between operations, and the life of memory: found whatever the schedule, and silent where the program is right.

#include <gtest/gtest.h>

#include <string>
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

/// Two streams that do not wait for each other by themselves; over schedule seeds.
class CheckerStreams : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
#if !defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "compiled without the hooks of checked mode";
#endif
    emulator::Settings settings;
    settings.schedule_seed = GetParam();
    emulator::configure(settings);
    emulator::enable_checker();
    for (cudaStream_t* stream : {&first_, &second_})
      check_cuda(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "");
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  void TearDown() override {
    if (first_ == nullptr) return;
    cudaDeviceSynchronize();
    check_cuda(cudaEventDestroy(event_), "cudaEventDestroy");
    for (cudaStream_t stream : {first_, second_}) check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
    emulator::disable_checker();
    emulator::configure({});
  }

  static void expect_silent() {
    std::string text;
    for (const Finding& finding : emulator::findings()) text += finding.text() + "\n";
    EXPECT_EQ(emulator::finding_count(), 0u) << text;
  }
  static void expect_only(FindingKind kind) {
    ASSERT_GE(emulator::finding_count(), 1u);
    for (const Finding& finding : emulator::findings()) EXPECT_EQ(finding.kind, kind) << finding.text();
  }
  static Finding first() { return emulator::finding_count() == 0 ? Finding() : emulator::findings().front(); }

  void scale(cudaStream_t stream, const float* x, float* y) {
    launch<scale_kernel>({.grid = kBlocks, .block = kThreads}, stream, x, y, int64_t{kCount});
  }
  /// The second stream waits for what the first one holds.
  void wait() {
    check_cuda(cudaEventRecord(event_, first_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(second_, event_), "cudaStreamWaitEvent");
  }
  float* allocate(cudaStream_t stream) {
    void* memory = nullptr;
    check_cuda(cudaMallocAsync(&memory, kBytes, stream), "cudaMallocAsync");
    return static_cast<float*>(memory);
  }
  float* pinned() {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault), "cudaHostAlloc");
    std::fill_n(static_cast<float*>(memory), kCount, 1.0F);
    return static_cast<float*>(memory);
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Seeds, CheckerStreams, ::testing::Values(0, 1, 2, 3, 4));

TEST_P(CheckerStreams, MissingStreamWait) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount), z(kCount);
  scale(first_, x.data(), y.data());
  wait();
  scale(second_, y.data(), z.data());
  cudaDeviceSynchronize();
  expect_silent();
  scale(first_, x.data(), y.data());
  scale(second_, y.data(), z.data());
  cudaDeviceSynchronize();
  expect_only(FindingKind::stream_race);
  EXPECT_NE(first().text().find("nothing orders the two"), std::string::npos) << first().text();
}

TEST_P(CheckerStreams, EventRecordedTooEarly) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount), z(kCount);
  wait();
  scale(first_, x.data(), y.data());
  check_cuda(cudaMemsetAsync(y.data(), 0, kBytes, second_), "cudaMemsetAsync");
  cudaDeviceSynchronize();
  expect_only(FindingKind::stream_race);
}

TEST_P(CheckerStreams, ReadersOfTwoStreams) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount), z(kCount);
  scale(first_, x.data(), y.data());
  scale(second_, x.data(), z.data());  // both read, in any order
  wait();
  check_cuda(cudaMemsetAsync(x.data(), 0, kBytes, second_), "cudaMemsetAsync");
  cudaDeviceSynchronize();
  expect_silent();
  scale(first_, x.data(), y.data());
  scale(second_, x.data(), z.data());
  check_cuda(cudaMemsetAsync(x.data(), 0, kBytes, second_), "cudaMemsetAsync");  // the first may still read
  cudaDeviceSynchronize();
  expect_only(FindingKind::stream_race);
}

TEST_P(CheckerStreams, HostReadsTooEarly) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount);
  std::vector<float> host(kCount);
  scale(first_, x.data(), y.data());
  check_cuda(cudaStreamSynchronize(first_), "cudaStreamSynchronize");
  check_cuda(cudaMemcpy(host.data(), y.data(), kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect_silent();
  scale(first_, x.data(), y.data());
  check_cuda(cudaMemcpy(host.data(), y.data(), kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  cudaDeviceSynchronize();
  expect_only(FindingKind::stream_race);
}

TEST_P(CheckerStreams, LibraryCalls) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount), z(kCount);
  const auto call = [&](cudaStream_t stream, const float* from, float* to) {
    emulator::launch_library("matmul", stream, {{from, kBytes}}, {{to, kBytes}},
                             [=] { std::copy_n(from, kCount, to); });
  };
  call(first_, x.data(), y.data());
  scale(first_, y.data(), z.data());
  wait();
  call(second_, z.data(), y.data());
  cudaDeviceSynchronize();
  expect_silent();
  call(first_, x.data(), y.data());
  call(second_, z.data(), y.data());
  cudaDeviceSynchronize();
  expect_only(FindingKind::stream_race);
}

TEST_P(CheckerStreams, LibraryReadsUnwritten) {
  const DeviceArray<float> x(kCount), y(kCount);
  emulator::launch_library("matmul", first_, {{x.data(), kBytes}}, {{y.data(), kBytes}}, [] {});
  cudaDeviceSynchronize();
  expect_only(FindingKind::unwritten_global);
}

TEST_P(CheckerStreams, CopiesCarryGaps) {
  const DeviceArray<float> x(kCount), y(kCount), z(kCount);
  check_cuda(cudaMemsetAsync(x.data(), 0, kBytes - 4, first_), "cudaMemsetAsync");
  check_cuda(cudaMemcpyAsync(y.data(), x.data(), kBytes, cudaMemcpyDeviceToDevice, first_), "cudaMemcpyAsync");
  launch<scale_kernel>({.grid = kBlocks, .block = kThreads}, first_, y.data(), z.data(), int64_t{kCount - 1});
  cudaDeviceSynchronize();
  expect_silent();
  scale(first_, y.data(), z.data());
  cudaDeviceSynchronize();
  expect_only(FindingKind::unwritten_global);
  EXPECT_EQ(first().thread.x, 255u);
}

TEST_P(CheckerStreams, UseAfterFree) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1));
  float* y = allocate(first_);
  scale(first_, x.data(), y);
  check_cuda(cudaFreeAsync(y, first_), "cudaFreeAsync");
  float* z = allocate(first_);
  scale(first_, x.data(), z);
  cudaDeviceSynchronize();
  expect_silent();
  check_cuda(cudaFreeAsync(z, first_), "cudaFreeAsync");
  scale(first_, x.data(), z);
  cudaDeviceSynchronize();
  expect_only(FindingKind::after_free);
  EXPECT_TRUE(first().text().starts_with("scale_kernel: use after free in stream order: block ")) << first().text();
}

TEST_P(CheckerStreams, FreeThatDoesNotWait) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1));
  float *y = allocate(first_), *z = allocate(second_);
  wait();
  scale(second_, x.data(), y);
  scale(second_, x.data(), z);
  check_cuda(cudaFreeAsync(z, second_), "cudaFreeAsync");
  check_cuda(cudaStreamSynchronize(second_), "cudaStreamSynchronize");
  check_cuda(cudaFreeAsync(y, first_), "cudaFreeAsync");
  cudaDeviceSynchronize();
  expect_silent();
  y = allocate(first_);
  wait();
  scale(second_, x.data(), y);
  check_cuda(cudaFreeAsync(y, first_), "cudaFreeAsync");  // second_ may still use it
  cudaDeviceSynchronize();
  expect_only(FindingKind::after_free);
}

TEST_P(CheckerStreams, UseBeforeAllocation) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1));
  float* y = allocate(first_);
  wait();
  scale(second_, x.data(), y);
  cudaDeviceSynchronize();
  expect_silent();
  float* z = allocate(first_);
  scale(second_, x.data(), z);
  cudaDeviceSynchronize();
  expect_only(FindingKind::before_allocation);
  check_cuda(cudaFree(y), "cudaFree");
  check_cuda(cudaFree(z), "cudaFree");
}

TEST_P(CheckerStreams, PinnedReusedTooEarly) {
  float* host = pinned();
  const DeviceArray<float> x(kCount);
  const auto copy = [&] {
    check_cuda(cudaMemcpyAsync(x.data(), host, kBytes, cudaMemcpyHostToDevice, first_), "cudaMemcpyAsync");
    check_cuda(cudaEventRecord(event_, first_), "cudaEventRecord");
  };
  copy();
  check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  host[17] = 2;
  copy();
  check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  expect_silent();
  copy();
  host[17] = 3;
  cudaDeviceSynchronize();
  expect_only(FindingKind::pinned_reuse);
  check_cuda(cudaFreeHost(host), "cudaFreeHost");
}

TEST_P(CheckerStreams, PinnedWrittenByTheDevice) {
  float* host = pinned();
  const DeviceArray<float> x(std::vector<float>(kCount, 5)), y(kCount);
  check_cuda(cudaMemcpyAsync(host, x.data(), kBytes, cudaMemcpyDeviceToHost, first_), "cudaMemcpyAsync");
  check_cuda(cudaMemcpyAsync(y.data(), host, kBytes, cudaMemcpyHostToDevice, first_), "cudaMemcpyAsync");
  cudaDeviceSynchronize();
  expect_silent();
  EXPECT_EQ(y.read(), x.read());
  check_cuda(cudaFreeHost(host), "cudaFreeHost");
}

TEST_P(CheckerStreams, GraphsKeepOrder) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount), z(kCount);
  for (const bool waits : {true, false}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    wait();  // the second stream joins the capture
    scale(first_, x.data(), y.data());
    if (waits) wait();
    scale(second_, y.data(), z.data());
    check_cuda(cudaEventRecord(event_, second_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(first_, event_), "cudaStreamWaitEvent");
    check_cuda(cudaStreamEndCapture(first_, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&executable, graph), "cudaGraphInstantiate");
    check_cuda(cudaMemsetAsync(y.data(), 0, kBytes, first_), "cudaMemsetAsync");
    for (int i = 0; i < 3; ++i) check_cuda(cudaGraphLaunch(executable, first_), "cudaGraphLaunch");
    cudaDeviceSynchronize();
    if (waits) expect_silent();
    check_cuda(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  expect_only(FindingKind::stream_race);
}

TEST_P(CheckerStreams, MemoryOfGraphs) {
  const DeviceArray<float> x(std::vector<float>(kCount, 1));
  for (const bool too_late : {false, true}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    float* y = allocate(first_);
    scale(first_, x.data(), y);
    check_cuda(cudaFreeAsync(y, first_), "cudaFreeAsync");
    if (too_late) scale(first_, x.data(), y);
    check_cuda(cudaStreamEndCapture(first_, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&executable, graph), "cudaGraphInstantiate");
    for (int i = 0; i < 2; ++i) check_cuda(cudaGraphLaunch(executable, first_), "cudaGraphLaunch");
    cudaDeviceSynchronize();
    if (!too_late) expect_silent();
    check_cuda(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  expect_only(FindingKind::after_free);
}

TEST_P(CheckerStreams, Leaks) {
  const size_t before = emulator::leaks().size();
  float* y = allocate(first_);
  check_cuda(cudaMemsetAsync(y, 0, kBytes, first_), "cudaMemsetAsync");
  cudaDeviceSynchronize();
  ASSERT_EQ(emulator::leaks().size(), before + 1);
  EXPECT_EQ(emulator::leaks().back().text(),
            "cudaMalloc: memory never freed: 4096 bytes on device 0, last touched by cudaMemset");
  check_cuda(cudaFreeAsync(y, first_), "cudaFreeAsync");
  EXPECT_EQ(emulator::leaks().size(), before);
  expect_silent();
}

}  // namespace
}  // namespace engine::testing
