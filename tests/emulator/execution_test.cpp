// Blocks, barriers, shared memory, orders, and launches that fail.

#include "kernels/emulator/execution.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/common/half.h"
#include "tests/emulator/emulator_fixture.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::blocks_for;
using kernels::launch;

class EmulatorExecution : public EmulatorTest {};

void shape_kernel(unsigned* y) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + thread + 1000 * block;
}

TEST_F(EmulatorExecution, EveryThreadRunsOnceInThreeDimensions) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    use_seed(seed);
    const DeviceArray<unsigned> y(std::vector<unsigned>(2 * 3 * 5 * 4 * 3 * 7, 0));
    launch<shape_kernel>({.grid = dim3(2, 3, 5), .block = dim3(4, 3, 7)}, stream(), y.data());
    const std::vector<unsigned> got = y.read();
    for (unsigned i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 1 + i % 84 + 1000 * (i / 84)) << i;
  }
}

template <int kThreads>
float block_sum(float value) {
  ENGINE_SHARED(float, partial, kThreads / 32);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value += __shfl_down_sync(0xFFFFFFFFU, value, static_cast<unsigned>(lanes));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (const float part : partial) sum += part;
  return sum;
}

void sum_kernel(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const float total = block_sum<256>(i < n ? x[i] : 0.0F);
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

TEST_F(EmulatorExecution, ReductionIsTheSameInEveryOrder) {
  constexpr int kCount = 5000;
  std::vector<float> x(kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const DeviceArray<float> in(x);
  std::vector<float> first;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    use_seed(seed);
    const DeviceArray<float> out(20);
    launch<sum_kernel>({.grid = blocks_for(kCount, 256), .block = 256}, stream(), in.data(), out.data(), kCount);
    const std::vector<float> got = out.read();
    double sum = 0, truth = 0;
    for (const float part : got) sum += static_cast<double>(part);
    for (const float value : x) truth += static_cast<double>(value);
    EXPECT_NEAR(sum, truth, 5000 * tolerance(kUnitRoundoff<float>, 256, OpClass::reduction));
    if (seed == 0) first = got;
    EXPECT_EQ(got, first);
  }
}

void scan_kernel(int* x) {
  ENGINE_SHARED(int, buffer, 2 * 512);
  const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  int at = 0;
  buffer[i] = x[i];
  __syncthreads();
  for (int step = 1; step < n; step *= 2) {
    const int* from = buffer + at;
    at = 512 - at;
    buffer[at + i] = i >= step ? from[i] + from[i - step] : from[i];
    __syncthreads();
  }
  x[i] = buffer[at + i];
}

TEST_F(EmulatorExecution, ScanWithBarriersInALoop) {
  for (const uint64_t seed : {0, 9}) {
    use_seed(seed);
    std::vector<int> x(512);
    std::iota(x.begin(), x.end(), 1);
    const DeviceArray<int> y(x);
    launch<scan_kernel>({.block = 512}, stream(), y.data());
    const std::vector<int> got = y.read();
    for (int i = 0; i < 512; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], (i + 1) * (i + 2) / 2);
  }
}

template <int kNumber>
__device__ int two_slots(int value) {
  ENGINE_SHARED(int, slot, 4);
  ENGINE_SHARED(int, second, 4);
  if (threadIdx.x == 0) slot[0] = value, second[0] = kNumber;
  __syncthreads();
  return slot[0] * 10 + second[0];
}
void slots_kernel(int* y) {
  const int a = two_slots<1>(1);
  const int b = two_slots<2>(2);
  ENGINE_SHARED(int, here, 1);
  if (threadIdx.x == 0) here[0] = 5;
  __syncthreads();
  y[threadIdx.x] = a * 1000 + b * 10 + here[0];
}
void pointers_kernel(const void** y) {
  ENGINE_SHARED(char, one, 3);
  ENGINE_SHARED(double, two, 2);
  y[0] = one;
  y[1] = two;
  y[2] = &emulator::shared_slot<int[1]>([] {});
}

TEST_F(EmulatorExecution, EachSharedArrayHasASlotOfItsOwn) {
  const DeviceArray<int> y(64);
  launch<slots_kernel>({.block = 64}, stream(), y.data());
  for (const int value : y.read()) EXPECT_EQ(value, 11225);
  const DeviceArray<const void*> pointers(3);
  launch<pointers_kernel>({.block = 1}, stream(), pointers.data());
  const std::vector<const void*> got = pointers.read();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(got[1]) % alignof(double), 0U);
  EXPECT_EQ(std::set<const void*>(got.begin(), got.end()).size(), 3U);
}

template <typename T>
void unwritten_kernel(T* y) {
  ENGINE_SHARED(T, slot, 8);
  y[blockIdx.x] = slot[5];
  slot[5] = T{};
}

TEST_F(EmulatorExecution, SharedMemoryIsPoisonedBeforeEachBlock) {
  const DeviceArray<float> y(3);
  launch<unwritten_kernel<float>>({.grid = 3, .block = 1}, stream(), y.data());
  for (const float value : y.read()) EXPECT_TRUE(std::isnan(value));
  const DeviceArray<kernels::Half> half(3);
  launch<unwritten_kernel<kernels::Half>>({.grid = 3, .block = 1}, stream(), half.data());
  for (const kernels::Half value : half.read()) EXPECT_TRUE(std::isnan(static_cast<float>(value)));
  const DeviceArray<int> number(3);
  launch<unwritten_kernel<int>>({.grid = 3, .block = 1}, stream(), number.data());
  for (const int value : number.read()) EXPECT_GT(value, 2000000000);
}

void order_kernel(int* order, int* count) {
  order[(*count)++] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

std::vector<int> order_of(uint64_t seed, cudaStream_t stream) {
  emulator::Settings settings;
  settings.schedule_seed = seed;
  emulator::configure(settings);
  const DeviceArray<int> order(4 * 64), count(std::vector<int>{0});
  launch<order_kernel>({.grid = 4, .block = 64}, stream, order.data(), count.data());
  return order.read();
}

TEST_F(EmulatorExecution, SeedsChangeTheOrderOfBlocksWarpsAndLanes) {
  std::vector<int> natural(4 * 64);
  std::iota(natural.begin(), natural.end(), 0);
  EXPECT_EQ(order_of(0, stream()), natural);
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<int> order = order_of(seed, stream());
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, natural);
  }
  EXPECT_GE(orders.size(), 7U);
}

void missing_threads_kernel(int* y) {
  if (threadIdx.x < 100) __syncthreads();
  y[threadIdx.x] = 0;
}
void two_places_kernel(int* y) {
  if (threadIdx.x == 0) {
    y[0] = __any_sync(0xFFFFFFFFU, 1);
  } else {
    __syncthreads();
  }
}
struct Destroyed {
  explicit Destroyed(int* count_) : count(count_) { ++*count; }
  ~Destroyed() { --*count; }
  int* count;
};
void unwound_kernel(int* alive) {
  const Destroyed object(alive);
  if (threadIdx.x != 7) __syncthreads();
}
void throwing_kernel(int* y) {
  __syncthreads();
  if (threadIdx.x == 5) throw std::runtime_error("thrown on purpose");
  __syncthreads();
  y[0] = 1;
}
void fine_kernel(int* y) {
  __syncthreads();
  y[threadIdx.x] = 6;
}

TEST_F(EmulatorExecution, DivergentBarriersAndExceptionsEndTheLaunch) {
  for (const uint64_t seed : {0, 3}) {
    use_seed(seed);
    const DeviceArray<int> y(std::vector<int>(256, 0));
    const auto fails = [&] { EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorLaunchFailure); };
    launch<missing_threads_kernel>({.grid = 2, .block = 256}, stream(), y.data());
    fails();
    launch<two_places_kernel>({.block = 64}, stream(), y.data());
    fails();
    launch<throwing_kernel>({.block = 64}, stream(), y.data());
    fails();
    launch<unwound_kernel>({.block = 64}, stream(), y.data());
    fails();
    EXPECT_EQ(y.read()[0], 0);
    launch<fine_kernel>({.block = 64}, stream(), y.data());
    EXPECT_EQ(y.read()[63], 6);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

void big_shared_kernel(int* y) {
  ENGINE_SHARED(int, one, 8 << 10);
  ENGINE_SHARED(int, two, 4 << 10);
  ENGINE_SHARED(int, three, 1);
  three[0] = one[0] + two[0];
  y[0] = three[0];
}

TEST_F(EmulatorExecution, SharedMemoryEndsAtItsLimit) {
  const DeviceArray<int> y(1);
  launch<big_shared_kernel>({.block = 2}, stream(), y.data());
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorInvalidConfiguration);
}

TEST_F(EmulatorExecution, IllegalShapesAreRefused) {
  const DeviceArray<int> y(1024);
  const auto code = [&](dim3 grid, dim3 block) {
    return emulator::launch("fine_kernel", grid, block, stream(), [p = y.data()] { fine_kernel(p); });
  };
  EXPECT_EQ(code(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(1, dim3(32, 33)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(0, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(0x80000000U, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(dim3(1, 65536), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(code(1, 1024), cudaSuccess);
  EXPECT_THROW(launch<fine_kernel>({.block = 1025}, stream(), y.data()), kernels::CudaError);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
}

void atomics_kernel(int* sum, unsigned* bits, unsigned* greatest) {
  atomicAdd(sum, static_cast<int>(threadIdx.x));
  atomicOr(bits, 1U << (threadIdx.x % 32));
  atomicMax(greatest, threadIdx.x * 7 % 256);
}

TEST_F(EmulatorExecution, Atomics) {
  const DeviceArray<int> sum(std::vector<int>{0});
  const DeviceArray<unsigned> bits(std::vector<unsigned>{0}), greatest(std::vector<unsigned>{0});
  launch<atomics_kernel>({.block = 256}, stream(), sum.data(), bits.data(), greatest.data());
  EXPECT_EQ(sum.read()[0], 255 * 128);
  EXPECT_EQ(bits.read()[0], 0xFFFFFFFFU);
  EXPECT_EQ(greatest.read()[0], 255U);
}

void plain_kernel(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] *= 2;
}

TEST_F(EmulatorExecution, ThreadsThatDoNotWaitCostNoSwitches) {
  const DeviceArray<float> x(std::vector<float>(100000, 1));
  const emulator::Counters before = emulator::counters();
  launch<plain_kernel>({.grid = blocks_for(100000, 256), .block = 256}, stream(), x.data(), 100000);
  EXPECT_EQ(x.read()[99999], 2);
  const emulator::Counters after = emulator::counters();
  EXPECT_EQ(after.threads - before.threads, 391U * 256);
  EXPECT_LE(after.fiber_switches - before.fiber_switches, 391U);
  EXPECT_EQ(after.kernels - before.kernels, 1U);
}

}  // namespace
}  // namespace engine::testing
