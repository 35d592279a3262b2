// Graphs: capture over one and several streams, replay, memory inside, and what a capture forbids.

#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "tests/emulator/emulator_fixture.h"

namespace engine::testing {
namespace {

using kernels::launch;

void add_kernel(int* x, int value) { x[threadIdx.x] += value; }
void times_kernel(int* x, int value) { x[threadIdx.x] *= value; }
void note_kernel(int* list, int number) { list[++list[0]] = number; }
void fill_kernel(float* x, float value) { x[threadIdx.x] = value; }
void add_to_kernel(const float* x, float* y) { y[threadIdx.x] += x[threadIdx.x]; }
void move_kernel(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

class EmulatorGraph : public EmulatorTest {
 protected:
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_EQ(cudaStreamBeginCapture(stream(), mode), cudaSuccess);
  }
  /// Ends the capture of stream().
  cudaGraphExec_t instantiate() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    executables_.push_back(executable);
    return executable;
  }
  void TearDown() override {
    for (const cudaGraphExec_t executable : executables_) {
      EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    }
    EmulatorTest::TearDown();
  }
  cudaStreamCaptureStatus status(cudaStream_t of) const {
    cudaStreamCaptureStatus result = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(of, &result), cudaSuccess);
    return result;
  }
  /// The capture of stream() has failed and ends without a graph.
  void expect_invalid() {
    EXPECT_EQ(status(stream()), cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(stream()), cudaStreamCaptureStatusNone);
  }

 private:
  std::vector<cudaGraphExec_t> executables_;
};

TEST_F(EmulatorGraph, ReplayEqualsDirectLaunches) {
  const DeviceArray<int> x(std::vector<int>(8, 1)), copy(8);
  const auto step = [&] {
    launch<add_kernel>({.block = 8}, stream(), x.data(), 3);
    launch<times_kernel>({.block = 8}, stream(), x.data(), 2);
    cudaMemcpyAsync(copy.data(), x.data(), 32, cudaMemcpyDeviceToDevice, stream());
    cudaMemsetAsync(x.data(), 0, 4, stream());
  };
  begin();
  EXPECT_EQ(status(stream()), cudaStreamCaptureStatusActive);
  step();
  const cudaGraphExec_t graph = instantiate();
  EXPECT_EQ(x.read(), std::vector<int>(8, 1));  // a capture runs nothing
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
  const std::vector<int> replayed = copy.read();
  cudaMemcpy(x.data(), std::vector<int>(8, 1).data(), 32, cudaMemcpyHostToDevice);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(copy.read(), replayed);
  EXPECT_EQ(replayed[1], 50);
}

TEST_F(EmulatorGraph, ReplayIsStreamWork) {
  const DeviceArray<int> list(std::vector<int>(16, 0));
  begin();
  launch<note_kernel>({}, stream(), list.data(), 1);
  const cudaGraphExec_t graph = instantiate();
  const uint64_t before = emulator::counters().kernels;
  launch<note_kernel>({}, other(), list.data(), 0);
  EXPECT_EQ(cudaGraphLaunch(graph, other()), cudaSuccess);
  launch<note_kernel>({}, other(), list.data(), 2);
  EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);  // after the launch before, though on another stream
  EXPECT_EQ(emulator::counters().kernels, before);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  const std::vector<int> got = list.read();
  EXPECT_EQ(std::vector<int>(got.begin(), got.begin() + 5), (std::vector<int>{4, 0, 1, 1, 2}));
}

/// A fork and a join by events; the seed shows that the branches stay parallel.
TEST_F(EmulatorGraph, CaptureFollowsEventsToOtherStreams) {
  const Event fork, join;
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    use_seed(seed);
    const DeviceArray<int> list(std::vector<int>(16, 0));
    begin();
    launch<note_kernel>({}, stream(), list.data(), 1);
    EXPECT_EQ(cudaEventRecord(fork.get(), stream()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other(), fork.get()), cudaSuccess);
    EXPECT_EQ(status(other()), cudaStreamCaptureStatusActive);
    for (int i = 2; i < 5; ++i) launch<note_kernel>({}, stream(), list.data(), i);
    for (int i = 12; i < 15; ++i) launch<note_kernel>({}, other(), list.data(), i);
    EXPECT_EQ(cudaEventRecord(join.get(), other()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream(), join.get()), cudaSuccess);
    launch<note_kernel>({}, stream(), list.data(), 20);
    const cudaGraphExec_t graph = instantiate();
    EXPECT_EQ(status(other()), cudaStreamCaptureStatusNone);
    EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
    const std::vector<int> order = list.read();
    EXPECT_EQ(order[0], 8);
    EXPECT_EQ(order[1], 1);
    EXPECT_EQ(order[8], 20);
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 4U);
}

TEST_F(EmulatorGraph, BranchesAreJoinedBeforeTheStreamGoesOn) {
  const Event fork, join;
  const DeviceArray<int> x(std::vector<int>{1}), y(std::vector<int>{0});
  begin();
  EXPECT_EQ(cudaEventRecord(fork.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other(), fork.get()), cudaSuccess);
  launch<times_kernel>({.block = 1}, other(), x.data(), 5);
  EXPECT_EQ(cudaEventRecord(join.get(), other()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream(), join.get()), cudaSuccess);
  const cudaGraphExec_t graph = instantiate();
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
  cudaMemcpyAsync(y.data(), x.data(), 4, cudaMemcpyDeviceToDevice, stream());
  EXPECT_EQ(y.read()[0], 55);
}

TEST_F(EmulatorGraph, MemoryOfAGraphKeepsItsAddresses) {
  const DeviceArray<float> y(std::vector<float>(4, 0)), stale(4);
  size_t free = 0, before = 0, total = 0;
  cudaMemGetInfo(&before, &total);
  begin();
  void *a = nullptr, *b = nullptr;
  EXPECT_EQ(cudaMallocAsync(&a, 4096, stream()), cudaSuccess);
  launch<move_kernel>({.block = 4}, stream(), static_cast<float*>(a), stale.data());
  launch<fill_kernel>({.block = 4}, stream(), static_cast<float*>(a), 2.0F);
  launch<add_to_kernel>({.block = 4}, stream(), static_cast<float*>(a), y.data());
  EXPECT_EQ(cudaFreeAsync(a, stream()), cudaSuccess);
  EXPECT_EQ(cudaMallocAsync(&b, 4096, stream()), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(b, stream()), cudaSuccess);
  const cudaGraphExec_t graph = instantiate();
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(before - free, 4096U);  // the blocks' lives do not overlap
  EXPECT_EQ(emulator::live_allocations().size(), 2U);
  EXPECT_TRUE(emulator::find_allocation(a).has_value());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
  EXPECT_EQ(y.read()[3], 6);
  EXPECT_TRUE(std::isnan(stale.read()[0]));  // poisoned again by each launch
}

TEST_F(EmulatorGraph, MemoryThatALaunchLeavesIsFreedOutside) {
  begin();
  void* kept = nullptr;
  EXPECT_EQ(cudaMallocAsync(&kept, 16, stream()), cudaSuccess);
  launch<fill_kernel>({.block = 4}, stream(), static_cast<float*>(kept), 2.0F);
  const cudaGraphExec_t graph = instantiate();
  EXPECT_EQ(cudaFreeAsync(kept, stream()), cudaErrorInvalidValue);  // no launch yet
  for (int i = 0; i < 2; ++i) {
    const DeviceArray<float> y(4);
    EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaErrorInvalidValue);
    launch<move_kernel>({.block = 4}, stream(), static_cast<const float*>(kept), y.data());
    EXPECT_EQ(i == 0 ? cudaFreeAsync(kept, stream()) : cudaFree(kept), cudaSuccess);
    EXPECT_EQ(y.read()[3], 2);
  }
}

TEST_F(EmulatorGraph, MemoryFromOutsideIsNotFreedInside) {
  void* outside = nullptr;
  EXPECT_EQ(cudaMallocAsync(&outside, 16, stream()), cudaSuccess);
  begin();
  EXPECT_EQ(cudaFreeAsync(outside, stream()), cudaErrorInvalidValue);
  expect_invalid();
  EXPECT_EQ(cudaFreeAsync(outside, stream()), cudaSuccess);
}

TEST_F(EmulatorGraph, MemoryGoesWithTheLastLaunch) {
  size_t before = 0, free = 0, total = 0;
  cudaMemGetInfo(&before, &total);
  begin();
  void* inside = nullptr;
  EXPECT_EQ(cudaMallocAsync(&inside, 1 << 20, stream()), cudaSuccess);
  launch<fill_kernel>({.block = 4}, stream(), static_cast<float*>(inside), 1.0F);
  EXPECT_EQ(cudaFreeAsync(inside, stream()), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream()), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(executable, stream()), cudaErrorInvalidResourceHandle);
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(before - free, size_t{1} << 20);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(before, free);
}

TEST_F(EmulatorGraph, CopiesInsideReadWhenTheyRun) {
  const DeviceArray<int> x(1);
  const PinnedArray<int> buffer(1);
  begin();
  cudaMemcpyAsync(x.data(), buffer.data(), 4, cudaMemcpyHostToDevice, stream());
  const cudaGraphExec_t graph = instantiate();
  for (int i = 0; i < 3; ++i) {
    buffer[0] = i;
    EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
    EXPECT_EQ(x.read()[0], i);
  }
}

void count_call(void* data) { ++*static_cast<int*>(data); }

TEST_F(EmulatorGraph, LibrariesAndHostFunctionsAreReplayed) {
  const DeviceArray<int> x(std::vector<int>{1});
  int calls = 0;
  int* p = x.data();
  begin();
  emulator::launch_library("double", stream(), {{p, 4}}, {{p, 4}}, [p] { *p *= 2; });
  cudaLaunchHostFunc(stream(), count_call, &calls);
  const cudaGraphExec_t graph = instantiate();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cudaGraphLaunch(graph, stream()), cudaSuccess);
  EXPECT_EQ(x.read()[0], 16);
  EXPECT_EQ(calls, 4);
}

TEST_F(EmulatorGraph, ForbiddenCallsEndACapture) {
  const DeviceArray<int> x(std::vector<int>{1});
  const Event recorded;
  EXPECT_EQ(cudaEventRecord(recorded.get(), stream()), cudaSuccess);
  void* memory = nullptr;
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&memory, 4); },
      [&] { return cudaFree(x.data()); },
      [&] { return cudaHostAlloc(&memory, 4, cudaHostAllocDefault); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaStreamSynchronize(stream()); },
      [&] { return cudaStreamSynchronize(other()); },
      [&] { return cudaStreamQuery(stream()); },
      [&] { return cudaEventSynchronize(recorded.get()); },
      [&] { return cudaEventQuery(recorded.get()); },
      [&] { return cudaMemcpy(x.data(), &memory, 4, cudaMemcpyHostToDevice); },
      [&] { return emulator::synchronize_all(); }};
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    for (const auto& call : calls) {
      begin(mode);
      EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
      EXPECT_THROW(launch<add_kernel>({.block = 1}, stream(), x.data(), 1), kernels::CudaError);
      expect_invalid();
    }
  }
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorStreamCaptureUnsupported);
  expect_invalid();
}

TEST_F(EmulatorGraph, OtherThreadsAreForbiddenByGlobalCapturesOnly) {
  const DeviceArray<int> x(std::vector<int>{1});
  const auto elsewhere = [&] {
    cudaError_t result = cudaSuccess;
    std::thread([&] { result = cudaStreamSynchronize(other()); }).join();
    return result;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(elsewhere(), cudaSuccess);
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  instantiate();
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(elsewhere(), cudaErrorStreamCaptureUnsupported);
  expect_invalid();
}

TEST_F(EmulatorGraph, EventsDoNotCrossTheBorder) {
  const Event outside, inside;
  EXPECT_EQ(cudaEventRecord(outside.get(), other()), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream(), outside.get()), cudaErrorStreamCaptureIsolation);
  expect_invalid();
  begin();
  EXPECT_EQ(cudaEventRecord(inside.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(inside.get()), cudaErrorCapturedEvent);
  expect_invalid();
  EXPECT_EQ(cudaEventSynchronize(inside.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(other(), inside.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventRecord(inside.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(inside.get()), cudaSuccess);
}

TEST_F(EmulatorGraph, CapturesEndWhereAndHowTheyMust) {
  const Event fork;
  const DeviceArray<int> x(std::vector<int>{1});
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorIllegalState);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  EXPECT_EQ(cudaEventRecord(fork.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other(), fork.get()), cudaSuccess);
  launch<add_kernel>({.block = 1}, other(), x.data(), 1);
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(status(other()), cudaStreamCaptureStatusNone);
  begin();
  EXPECT_EQ(cudaEventRecord(fork.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other(), fork.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(other(), &graph), cudaErrorStreamCaptureUnmatched);
  expect_invalid();
  begin();
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&] { elsewhere = cudaStreamEndCapture(stream(), &graph); }).join();
  EXPECT_EQ(elsewhere, cudaErrorStreamCaptureWrongThread);
  expect_invalid();
}

TEST_F(EmulatorGraph, LegacyStreamMayNotTouchABlockingStreamThatCaptures) {
  const cudaStream_t blocking = create(cudaStreamDefault);
  const DeviceArray<int> x(std::vector<int>{1});
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_THROW(launch<add_kernel>({.block = 1}, nullptr, x.data(), 1), kernels::CudaError);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  launch<add_kernel>({.block = 1}, nullptr, x.data(), 1);  // a stream that does not block is no matter
  instantiate();
  EXPECT_EQ(x.read()[0], 2);
}

}  // namespace
}  // namespace engine::testing
