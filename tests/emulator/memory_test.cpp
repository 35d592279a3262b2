// Device and pinned memory: limits, poison, guard zones, stream order, pools, copies.

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/emulator/emulator_fixture.h"

namespace engine::testing {
namespace {

using kernels::launch;

class EmulatorMemory : public EmulatorTest {
 protected:
  static void limit_memory(size_t bytes) {
    emulator::Settings settings;
    settings.memory_bytes = bytes;
    emulator::configure(settings);
  }
  static uint64_t pool_value(cudaMemPoolAttr attribute) {
    cudaMemPool_t pool = nullptr;
    uint64_t value = 0;
    EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    EXPECT_EQ(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
    return value;
  }
  static void set_pool(cudaMemPoolAttr attribute, uint64_t value, cudaError_t expected = cudaSuccess) {
    cudaMemPool_t pool = nullptr;
    EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    EXPECT_EQ(cudaMemPoolSetAttribute(pool, attribute, &value), expected);
  }
  static size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
};

constexpr size_t kMiB = size_t{1} << 20;

void write_kernel(char* p, int value) { *p = static_cast<char>(value); }
void fill_kernel(float* p, float value) { p[threadIdx.x] = value; }
void copy_kernel(const float* p, float* y) { y[threadIdx.x] = p[threadIdx.x]; }

TEST_F(EmulatorMemory, FreshMemoryIsPoison) {
  const DeviceArray<float> x(1000);
  for (const float value : x.read()) ASSERT_TRUE(std::isnan(value));
  const PinnedArray<float> pinned(3);
  EXPECT_TRUE(std::isnan(pinned[2]));
}

TEST_F(EmulatorMemory, BlocksAreAlignedAndListed) {
  const uint64_t before = emulator::counters().allocations;
  void* pointers[3];
  EXPECT_EQ(cudaMalloc(&pointers[0], 5), cudaSuccess);
  EXPECT_EQ(cudaMallocAsync(&pointers[1], 1000, stream()), cudaSuccess);
  EXPECT_EQ(cudaHostAlloc(&pointers[2], 7, cudaHostAllocDefault), cudaSuccess);
  for (void* pointer : pointers) EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 256, 0U);
  const std::vector<emulator::Allocation> live = emulator::live_allocations();
  ASSERT_EQ(live.size(), 3U);
  EXPECT_EQ(live[0].bytes, 5U);
  EXPECT_EQ(live[1].base, pointers[1]);
  EXPECT_EQ(live[2].device, -1);
  EXPECT_LT(live[0].id, live[1].id);
  EXPECT_EQ(emulator::counters().allocations - before, 2U);
  EXPECT_EQ(emulator::find_allocation(live[1].base + 999)->id, live[1].id);
  EXPECT_FALSE(emulator::find_allocation(live[1].base + 1000).has_value());
  EXPECT_TRUE(emulator::emulated_memory(live[1].base + 1000));
  EXPECT_FALSE(emulator::emulated_memory(&live));
  EXPECT_EQ(cudaFree(pointers[0]), cudaSuccess);
  EXPECT_EQ(cudaFree(pointers[0]), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(static_cast<char*>(pointers[1]) + 8, stream()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(pointers[1], stream()), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pointers[1], stream()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pointers[2]), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pointers[2]), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointers[0], 0), cudaSuccess);
  EXPECT_EQ(pointers[0], nullptr);
}

TEST_F(EmulatorMemory, LimitHolds) {
  limit_memory(10 * kMiB);
  void *a = nullptr, *b = nullptr, *c = nullptr;
  EXPECT_EQ(cudaMalloc(&a, 6 * kMiB), cudaSuccess);
  EXPECT_EQ(free_bytes(), 4 * kMiB);
  EXPECT_EQ(cudaMalloc(&b, 5 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(b, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocAsync(&b, 3 * kMiB, stream()), cudaSuccess);
  EXPECT_EQ(cudaMallocAsync(&c, 2 * kMiB, stream()), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFreeAsync(b, stream()), cudaSuccess);  // makes room by program order
  EXPECT_EQ(cudaMallocAsync(&b, 4 * kMiB, stream()), cudaSuccess);
  EXPECT_EQ(free_bytes(), 0U);
  EXPECT_EQ(cudaFreeAsync(b, stream()), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&a, 10 * kMiB), cudaSuccess);  // takes what the pool held in reserve
  EXPECT_EQ(cudaMalloc(&b, std::numeric_limits<size_t>::max()), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
}

TEST_F(EmulatorMemory, PoolKeepsItsBooks) {
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  set_pool(cudaMemPoolAttrUsedMemHigh, 0);
  set_pool(cudaMemPoolAttrReservedMemHigh, 0);
  EXPECT_EQ(pool_value(cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemCurrent), 0U);
  set_pool(cudaMemPoolAttrReleaseThreshold, 4 * kMiB);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReleaseThreshold), 4 * kMiB);
  void *a = nullptr, *b = nullptr;
  EXPECT_EQ(cudaMallocAsync(&a, 5 * kMiB + 1, stream()), cudaSuccess);
  EXPECT_EQ(cudaMallocAsync(&b, 3 * kMiB, stream()), cudaSuccess);
  EXPECT_EQ(pool_value(cudaMemPoolAttrUsedMemCurrent), 8 * kMiB + 512);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemCurrent), 10 * kMiB);
  EXPECT_EQ(cudaFreeAsync(a, stream()), cudaSuccess);
  EXPECT_EQ(pool_value(cudaMemPoolAttrUsedMemCurrent), 3 * kMiB);
  EXPECT_EQ(pool_value(cudaMemPoolAttrUsedMemHigh), 8 * kMiB + 512);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemCurrent), 10 * kMiB);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemCurrent), 4 * kMiB);  // down to the threshold
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemHigh), 10 * kMiB);
  EXPECT_EQ(cudaFreeAsync(b, stream()), cudaSuccess);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  EXPECT_EQ(pool_value(cudaMemPoolAttrReservedMemCurrent), 0U);
  set_pool(cudaMemPoolAttrUsedMemHigh, 1, cudaErrorInvalidValue);
  set_pool(cudaMemPoolAttrUsedMemCurrent, 0, cudaErrorInvalidValue);
  set_pool(cudaMemPoolAttrReleaseThreshold, 0);
}

TEST_F(EmulatorMemory, BrokenGuardZonesAreFound) {
  void *a = nullptr, *b = nullptr;
  EXPECT_EQ(cudaMalloc(&a, 100), cudaSuccess);
  EXPECT_EQ(cudaMallocAsync(&b, 100, stream()), cudaSuccess);
  launch<write_kernel>({}, stream(), static_cast<char*>(a) + 100, 1);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);  // told once
  launch<write_kernel>({}, stream(), static_cast<char*>(b) - 256, 1);
  EXPECT_EQ(cudaFreeAsync(b, stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&a, 100), cudaSuccess);
  launch<write_kernel>({}, stream(), static_cast<char*>(a) + 355, 1);
  EXPECT_EQ(cudaFree(a), cudaErrorIllegalAddress);
  const PinnedArray<char> pinned(10);
  pinned[10] = 1;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(EmulatorMemory, FreedMemoryIsPoisonInStreamOrder) {
  void* memory = nullptr;
  const DeviceArray<float> before(8), after(8);
  EXPECT_EQ(cudaMallocAsync(&memory, 32, stream()), cudaSuccess);
  auto* x = static_cast<float*>(memory);
  launch<fill_kernel>({.block = 8}, stream(), x, 3.0F);
  EXPECT_EQ(cudaFreeAsync(x, stream()), cudaSuccess);
  void* next = nullptr;
  EXPECT_EQ(cudaMallocAsync(&next, 32, stream()), cudaSuccess);
  EXPECT_NE(next, memory);
  launch<copy_kernel>({.block = 8}, other(), x, before.data());
  EXPECT_EQ(cudaStreamSynchronize(other()), cudaSuccess);
  EXPECT_TRUE(std::isnan(before.read()[0]));  // neither filled yet nor freed
  launch<copy_kernel>({.block = 8}, stream(), x, after.data());
  EXPECT_TRUE(std::isnan(after.read()[0]));
  EXPECT_EQ(cudaFreeAsync(next, stream()), cudaSuccess);
}

TEST_F(EmulatorMemory, QuarantineDelaysReuse) {
  emulator::Settings settings;
  settings.quarantine_bytes = 64 << 10;
  emulator::configure(settings);
  void* first = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 10000), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  int fresh = 0;
  bool reused = false;
  for (int i = 0; i < 20 && !reused; ++i) {
    void* next = nullptr;
    EXPECT_EQ(cudaMalloc(&next, 10000), cudaSuccess);
    reused = next == first;
    fresh += reused ? 0 : 1;
    EXPECT_TRUE(std::isnan(*static_cast<float*>(next)));
    std::memset(next, 0, 10000);
    EXPECT_EQ(cudaFree(next), cudaSuccess);
  }
  EXPECT_TRUE(reused);
  EXPECT_GE(fresh, 5);
}

TEST_F(EmulatorMemory, FreesThatPileUpAreRun) {
  emulator::Settings settings;
  settings.deferred_free_bytes = 10 * kMiB;
  settings.memory_bytes = 4 * kMiB;
  emulator::configure(settings);
  const uint64_t before = emulator::counters().sets;
  for (int i = 0; i < 30; ++i) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMallocAsync(&memory, kMiB, stream()), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory, 1, kMiB, stream()), cudaSuccess);
    ASSERT_EQ(cudaFreeAsync(memory, stream()), cudaSuccess);
  }
  EXPECT_EQ(emulator::counters().sets - before, 20U);
}

TEST_F(EmulatorMemory, CopiesAreChecked) {
  const DeviceArray<int> x(std::vector<int>{1, 2, 3}), y(3);
  int host[4] = {};
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream());
  };
  EXPECT_EQ(copy(host, x.data(), 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, x.data(), 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(nullptr, x.data(), 12, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(copy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(copy(y.data(), x.data(), 12, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host, y.data() + 1, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_NE(host[0], 2);  // the other copy is on a stream that nobody waited for
  EXPECT_EQ(y.read()[2], 3);
  EXPECT_EQ(cudaMemsetAsync(y.data(), 0, 16, stream()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 4, stream()), cudaErrorInvalidValue);
  int* freed = nullptr;
  {
    const DeviceArray<int> gone(3);
    freed = gone.data();
  }
  EXPECT_EQ(copy(host, freed, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  host[3] = 7;
  EXPECT_EQ(copy(host, host + 3, 4, cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(host[0], 7);
  const uint64_t before = emulator::counters().copied_bytes;
  EXPECT_EQ(cudaMemcpy(y.data(), x.data(), 12, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(emulator::counters().copied_bytes, before);  // does not wait
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(emulator::counters().copied_bytes, before + 12);
}

}  // namespace
}  // namespace engine::testing
