#pragma once
// Starts and ends each test with the default settings, no work and no memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/emulator/emulator.h"
#include "tests/support/device.h"

namespace engine::testing {

class EmulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulator::configure({});
    stream_ = create(cudaStreamNonBlocking);
    other_ = create(cudaStreamNonBlocking);
  }
  void TearDown() override {
    EXPECT_EQ(emulator::synchronize_all(), cudaSuccess);
    for (const cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(emulator::live_allocations().size(), 0U);
    cudaSetDevice(0);
    cudaGetLastError();
    emulator::configure({});
  }

  cudaStream_t stream() const { return stream_; }
  cudaStream_t other() const { return other_; }
  cudaStream_t create(unsigned flags) {
    cudaStream_t result = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&result, flags), cudaSuccess);
    streams_.push_back(result);
    return result;
  }
  static void use_seed(uint64_t seed) {
    emulator::Settings settings;
    settings.schedule_seed = seed;
    emulator::configure(settings);
  }

 private:
  cudaStream_t stream_ = nullptr, other_ = nullptr;
  std::vector<cudaStream_t> streams_;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
  }
  ~Event() { EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Host memory that the device reads and writes itself.
template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocDefault), cudaSuccess);
    data_ = static_cast<T*>(memory);
  }
  ~PinnedArray() { EXPECT_EQ(cudaFreeHost(data_), cudaSuccess); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  T* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  size_t count_;
  T* data_ = nullptr;
};

}  // namespace engine::testing
