// Streams run late, in an order that events and streams allow, and no later than the host may expect.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/emulator/emulator_fixture.h"

namespace engine::testing {
namespace {

using kernels::launch;

class EmulatorStream : public EmulatorTest {};

void add_kernel(int* x, int value) { x[threadIdx.x] += value; }
void set_kernel(int* x, int value) { x[threadIdx.x] = value; }
void copy_kernel(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
/// Appends a number to a list; the list's order is the order of running.
void note_kernel(int* list, int number) { list[++list[0]] = number; }

std::vector<int> noted(const DeviceArray<int>& list) {
  const std::vector<int> all = list.read();
  return {all.begin() + 1, all.begin() + 1 + all[0]};
}

TEST_F(EmulatorStream, NothingRunsBeforeItIsNeeded) {
  const DeviceArray<int> x(std::vector<int>(4, 1));
  const uint64_t before = emulator::counters().kernels;
  launch<add_kernel>({.block = 4}, stream(), x.data(), 2);
  launch<add_kernel>({.block = 4}, other(), x.data(), 2);
  EXPECT_EQ(emulator::counters().kernels, before);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(emulator::counters().kernels, before + 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(emulator::counters().kernels, before + 2);
}

TEST_F(EmulatorStream, PinnedBufferReusedTooEarlyGivesTheNewData) {
  const DeviceArray<int> x(1), y(1);
  const PinnedArray<int> buffer(1);
  const Event copied;
  buffer[0] = 1;
  cudaMemcpyAsync(x.data(), buffer.data(), 4, cudaMemcpyHostToDevice, stream());
  buffer[0] = 2;
  cudaMemcpyAsync(y.data(), buffer.data(), 4, cudaMemcpyHostToDevice, stream());
  EXPECT_EQ(x.read()[0], 2);
  buffer[0] = 1;
  cudaMemcpyAsync(x.data(), buffer.data(), 4, cudaMemcpyHostToDevice, stream());
  EXPECT_EQ(cudaEventRecord(copied.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(copied.get()), cudaSuccess);
  buffer[0] = 2;
  EXPECT_EQ(x.read()[0], 1);
}

TEST_F(EmulatorStream, PageableCopiesAreStagedOneWayAndWaitTheOther) {
  const DeviceArray<int> x(1);
  int host = 1;
  cudaMemcpyAsync(x.data(), &host, 4, cudaMemcpyHostToDevice, stream());
  host = 2;
  launch<add_kernel>({.block = 1}, stream(), x.data(), 10);
  cudaMemcpyAsync(&host, x.data(), 4, cudaMemcpyDeviceToHost, stream());
  EXPECT_EQ(host, 11);
}

TEST_F(EmulatorStream, PinnedTargetIsWrittenLate) {
  const DeviceArray<int> x(std::vector<int>{5});
  const PinnedArray<int> buffer(1);
  buffer[0] = 0;
  cudaMemcpyAsync(buffer.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream());
  EXPECT_EQ(buffer[0], 0);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(buffer[0], 5);
}

/// A consumer that is needed first runs before its producer, unless it waits for it.
TEST_F(EmulatorStream, MissingWaitGivesOldDataAndAnEventTheRight) {
  const DeviceArray<int> x(std::vector<int>{1}), y(1);
  const Event produced;
  launch<set_kernel>({.block = 1}, stream(), x.data(), 2);
  launch<copy_kernel>({.block = 1}, other(), x.data(), y.data());
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  EXPECT_EQ(y.read()[0], 1);
  launch<set_kernel>({.block = 1}, stream(), x.data(), 3);
  EXPECT_EQ(cudaEventRecord(produced.get(), stream()), cudaSuccess);
  launch<set_kernel>({.block = 1}, stream(), x.data(), 4);
  EXPECT_EQ(cudaStreamWaitEvent(other(), produced.get()), cudaSuccess);
  launch<copy_kernel>({.block = 1}, other(), x.data(), y.data());
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  EXPECT_EQ(y.read()[0], 3);
}

TEST_F(EmulatorStream, WaitsForTheLatestRecordAtTheCall) {
  const DeviceArray<int> list(std::vector<int>(8, 0));
  const Event event;
  EXPECT_EQ(cudaStreamWaitEvent(other(), event.get()), cudaSuccess);  // never recorded: no wait
  launch<note_kernel>({}, stream(), list.data(), 1);
  EXPECT_EQ(cudaEventRecord(event.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other(), event.get()), cudaSuccess);
  launch<note_kernel>({}, stream(), list.data(), 2);
  EXPECT_EQ(cudaEventRecord(event.get(), stream()), cudaSuccess);
  launch<note_kernel>({}, other(), list.data(), 3);
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  EXPECT_EQ(noted(list), (std::vector<int>{1, 3, 2}));
}

TEST_F(EmulatorStream, LongChainsBetweenTwoStreams) {
  const DeviceArray<int> x(std::vector<int>{0});
  const Event event;
  for (int i = 0; i < 1500; ++i) {
    const cudaStream_t from = i % 2 == 0 ? stream() : other(), to = i % 2 == 0 ? other() : stream();
    launch<add_kernel>({.block = 1}, from, x.data(), 1);
    cudaEventRecord(event.get(), from);
    cudaStreamWaitEvent(to, event.get());
  }
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(x.read()[0], 1500);
}

std::vector<int> interleaving(uint64_t seed, cudaStream_t one, cudaStream_t two) {
  emulator::Settings settings;
  settings.schedule_seed = seed;
  emulator::configure(settings);
  const DeviceArray<int> list(std::vector<int>(32, 0));
  const Event event;
  for (int i = 0; i < 6; ++i) launch<note_kernel>({}, one, list.data(), i);
  cudaEventRecord(event.get(), one);
  for (int i = 10; i < 16; ++i) launch<note_kernel>({}, two, list.data(), i);
  cudaStreamWaitEvent(two, event.get());
  for (int i = 16; i < 20; ++i) launch<note_kernel>({}, two, list.data(), i);
  EXPECT_EQ(cudaStreamSynchronize(one), cudaSuccess);
  return noted(list);
}

TEST_F(EmulatorStream, SeedsChangeInterleavingsWithinTheLaw) {
  std::set<std::vector<int>> found;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<int> order = interleaving(seed, stream(), other());
    EXPECT_EQ(order, interleaving(seed, stream(), other()));
    ASSERT_EQ(order.size(), 16U);
    const auto place = [&](int number) { return std::find(order.begin(), order.end(), number) - order.begin(); };
    for (int i = 1; i < 6; ++i) EXPECT_LT(place(i - 1), place(i));
    for (int i = 11; i < 20; ++i) EXPECT_LT(place(i - 1), place(i));
    EXPECT_LT(place(5), place(16));
    found.insert(order);
  }
  EXPECT_GE(found.size(), 7U);
}

TEST_F(EmulatorStream, PollingEnds) {
  const DeviceArray<int> x(std::vector<int>{0});
  const Event event;
  for (int i = 0; i < 20; ++i) launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaSuccess);
  cudaEventRecord(event.get(), stream());
  EXPECT_EQ(cudaStreamQuery(stream()), cudaErrorNotReady);
  int polls = 0;
  while (cudaEventQuery(event.get()) == cudaErrorNotReady) ASSERT_LT(++polls, 1000);
  EXPECT_GE(polls, 20);
  EXPECT_EQ(cudaStreamQuery(stream()), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // "not ready" is none
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  for (polls = 0; cudaStreamQuery(stream()) == cudaErrorNotReady;) ASSERT_LT(++polls, 100);
  EXPECT_EQ(x.read()[0], 21);
}

TEST_F(EmulatorStream, LegacyStreamAndBlockingStreamsWaitForEachOther) {
  const cudaStream_t blocking = create(cudaStreamDefault);
  const DeviceArray<int> list(std::vector<int>(16, 0));
  launch<note_kernel>({}, stream(), list.data(), 9);  // does not block: runs when it is needed itself
  launch<note_kernel>({}, blocking, list.data(), 1);
  launch<note_kernel>({}, nullptr, list.data(), 2);
  launch<note_kernel>({}, blocking, list.data(), 3);
  launch<note_kernel>({}, nullptr, list.data(), 4);
  launch<note_kernel>({}, blocking, list.data(), 5);
  EXPECT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(noted(list), (std::vector<int>{1, 2, 3, 4, 5, 9}));
}

TEST_F(EmulatorStream, BlockingCopyComesAfterBlockingStreamsOnly) {
  const cudaStream_t blocking = create(cudaStreamDefault);
  const DeviceArray<int> x(std::vector<int>{1}), y(std::vector<int>{1});
  launch<set_kernel>({.block = 1}, blocking, x.data(), 2);
  launch<set_kernel>({.block = 1}, stream(), y.data(), 2);
  int got[2];
  EXPECT_EQ(cudaMemcpy(&got[0], x.data(), 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&got[1], y.data(), 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got[0], 2);
  EXPECT_EQ(got[1], 1);
}

TEST_F(EmulatorStream, EventsTellTheTimeBetweenThem) {
  const Event start, end, untimed(cudaEventDisableTiming);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaErrorInvalidResourceHandle);
  cudaEventRecord(start.get(), stream());
  cudaLaunchHostFunc(
      stream(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr);
  cudaEventRecord(end.get(), stream());
  cudaEventRecord(untimed.get(), stream());
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end.get()), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaSuccess);
  EXPECT_GE(milliseconds, 20);
  EXPECT_LT(milliseconds, 2000);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), untimed.get()), cudaErrorInvalidResourceHandle);
}

struct Call {
  std::vector<int>* order;
  int number;
  cudaError_t inner = cudaSuccess;
};
void host_function(void* data) {
  auto* call = static_cast<Call*>(data);
  call->order->push_back(call->number);
  call->inner = cudaDeviceSynchronize();
}

TEST_F(EmulatorStream, HostFunctionsRunInOrderAndMayCallNothing) {
  std::vector<int> order;
  Call one{&order, 1}, two{&order, 2};
  const PinnedArray<int> pinned(1);
  const DeviceArray<int> x(std::vector<int>{7});
  cudaMemcpyAsync(pinned.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream());
  EXPECT_EQ(cudaLaunchHostFunc(stream(), host_function, &one), cudaSuccess);
  EXPECT_EQ(cudaLaunchHostFunc(stream(), host_function, &two), cudaSuccess);
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(one.inner, cudaErrorNotPermitted);
}

struct Handshake {
  std::mutex mutex;
  std::atomic<bool> called = false;
};

TEST_F(EmulatorStream, HostFunctionMayWaitForAThreadThatCallsTheRuntime) {
  const DeviceArray<int> x(std::vector<int>{1});  // waits for the whole device
  Handshake shake;
  std::unique_lock held(shake.mutex);
  cudaLaunchHostFunc(
      stream(),
      [](void* data) {
        auto* both = static_cast<Handshake*>(data);
        both->called = true;
        const std::lock_guard lock(both->mutex);
      },
      &shake);
  std::thread waiter([&] { EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess); });
  while (!shake.called) std::this_thread::yield();
  launch<add_kernel>({.block = 1}, other(), x.data(), 1);
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  held.unlock();
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  waiter.join();
}

TEST_F(EmulatorStream, SeveralThreadsCallAtOnce) {
  const DeviceArray<int> x(std::vector<int>(4, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cudaStream_t mine = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
      for (int i = 0; i < 200; ++i) {
        launch<add_kernel>({.block = 1}, mine, x.data() + t, 1);
        if (i % 10 == 0) {
          EXPECT_EQ(cudaStreamSynchronize(mine), cudaSuccess);
        }
      }
      EXPECT_EQ(cudaStreamSynchronize(mine), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(mine), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(x.read(), std::vector<int>(4, 200));
}

TEST_F(EmulatorStream, QueuesAreBounded) {
  emulator::Settings settings;
  settings.queue_limit = 100;
  emulator::configure(settings);
  const DeviceArray<int> x(std::vector<int>{0});
  const uint64_t before = emulator::counters().kernels;
  for (int i = 0; i < 1000; ++i) launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(emulator::counters().kernels - before, 900U);
  EXPECT_EQ(x.read()[0], 1000);
}

TEST_F(EmulatorStream, LibraryWorkIsStreamWork) {
  const DeviceArray<int> x(std::vector<int>{1});
  int* p = x.data();
  launch<add_kernel>({.block = 1}, stream(), p, 1);
  EXPECT_EQ(emulator::launch_library("times ten", stream(), {{p, 4}}, {{p, 4}}, [p] { *p *= 10; }), cudaSuccess);
  launch<add_kernel>({.block = 1}, stream(), p, 1);
  EXPECT_EQ(x.read()[0], 21);
  EXPECT_EQ(emulator::launch_library("throws", stream(), {}, {}, [] { throw std::runtime_error("on purpose"); }),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorLaunchFailure);
}

void fault_kernel(int*) { throw std::runtime_error("on purpose"); }

TEST_F(EmulatorStream, AfterAFaultNothingRunsUntilItIsTold) {
  const DeviceArray<int> x(std::vector<int>{1});
  launch<fault_kernel>({.block = 1}, stream(), x.data());
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  launch<add_kernel>({.block = 1}, stream(), x.data(), 5);
  EXPECT_EQ(x.read()[0], 6);
}

TEST_F(EmulatorStream, DestroyedHandlesAreRefused) {
  cudaStream_t gone = nullptr;
  cudaEvent_t event = nullptr;
  const DeviceArray<int> x(std::vector<int>{1});
  EXPECT_EQ(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  launch<add_kernel>({.block = 1}, gone, x.data(), 1);
  EXPECT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(gone), cudaErrorInvalidResourceHandle);
  EXPECT_THROW(launch<add_kernel>({.block = 1}, gone, x.data(), 1), kernels::CudaError);
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(x.read()[0], 2);  // its work was done nevertheless
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(stream(), event), cudaErrorInvalidResourceHandle);
}

TEST_F(EmulatorStream, SettingsStayWhileWorkIsQueued) {
  const DeviceArray<int> x(std::vector<int>{1});
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_THROW(emulator::configure({}), std::logic_error);
  EXPECT_EQ(emulator::synchronize_all(), cudaSuccess);
  EXPECT_NO_THROW(emulator::configure({}));
}

}  // namespace
}  // namespace engine::testing
