// Memory, streams and recorded work of the build's accelerator (emulated without CUDA).

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/core/error.h"
#include "engine/core/pinned.h"
#include "engine/core/stream.h"
#include "engine/core/tensor.h"
#include "kernels/common/cuda_error.h"
#include "kernels/fill/fill.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

class CoreAcceleratorTest : public AcceleratorTest {
 protected:
  const Device device_ = Device::accelerator();
};

TEST_F(CoreAcceleratorTest, TensorsComeAndGo) {
  const Tensor host = Tensor::from_vector<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor there = host.to(device_);
  EXPECT_EQ(there.device(), device_);
  EXPECT_EQ(there.to_vector<float>(), host.to_vector<float>());
  EXPECT_EQ(there.clone().narrow(0, 1, 1).to_vector<float>(), (std::vector<float>{4, 5, 6}));
  const Tensor other = there.new_empty(host.shape(), DType::f32);
  other.copy_from(host);
  EXPECT_EQ(other.to(Device::cpu()).to_vector<float>(), host.to_vector<float>());
  other.fill(2.5);
  EXPECT_EQ(other.to_vector<float>(), std::vector<float>(6, 2.5F));
  EXPECT_EQ(Tensor::zeros({3}, DType::i64, MemoryCategory::data, device_).to_vector<int64_t>(),
            std::vector<int64_t>(3, 0));
  EXPECT_EQ(other.narrow(1, 0, 1).select(0, 1).item(), 2.5);
}

TEST_F(CoreAcceleratorTest, EmptyTensorsNeedNoMemory) {
  const Tensor none = Tensor::empty({0, 4}, DType::f32, MemoryCategory::activations, device_);
  none.fill(1);
  EXPECT_TRUE(none.to_vector<float>().empty());
  EXPECT_TRUE(none.clone().to(Device::cpu()).to_vector<float>().empty());
}

TEST_F(CoreAcceleratorTest, MemoryIsCountedByCategory) {
  const MemoryStats before = memory_stats(device_);
  constexpr int64_t kBytes = 1 << 20;
  {
    const Tensor a = Tensor::empty({kBytes}, DType::u8, MemoryCategory::gradients, device_);
    const MemoryStats with = memory_stats(device_);
    const auto gradients = static_cast<size_t>(MemoryCategory::gradients);
    EXPECT_EQ(with.live[gradients] - before.live[gradients], kBytes);
    EXPECT_EQ(with.live_total - before.live_total, kBytes);
    EXPECT_GE(with.peak_total, before.live_total + kBytes);
  }
  EXPECT_EQ(memory_stats(device_).live_total, before.live_total);
  reset_memory_peaks(device_);
  EXPECT_EQ(memory_stats(device_).peak_total, before.live_total);
}

TEST_F(CoreAcceleratorTest, H_CUDA_03_OutOfMemoryTellsWhatWasAskedForAndWhatIsInUse) {
  const Tensor held = Tensor::empty({3 << 20}, DType::u8, MemoryCategory::parameters, device_);
  const std::string message = message_of<OutOfMemoryError>(
      [&] { Tensor::empty({int64_t{1} << 44}, DType::u8, MemoryCategory::activations, device_); });
  for (const std::string& part : std::vector<std::string>{"out of memory", name_of(device_), "requested 16777216.0 MiB",
                                                          "activations", "free of", "parameters", "MiB"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  // The device goes on.
  EXPECT_EQ(Tensor::zeros({4}, DType::f32, MemoryCategory::data, device_).to_vector<float>(), std::vector<float>(4, 0));
}

TEST_F(CoreAcceleratorTest, H_CUDA_06_AnOrdinalThatIsNotThere) {
  const auto count = describe_accelerators().size();
  const std::string text = (kernels::kBuiltWithCuda ? "cuda:" : "emulated:") + std::to_string(count);
  ExpectError<DeviceError>([&] { parse_device(text); },
                           {"--device " + text, "got ordinal " + std::to_string(count), "the number of devices"});
  EXPECT_EQ(parse_device(name_of(device_)), device_);
}

TEST_F(CoreAcceleratorTest, RecordedWorkRunsAtReplayOnly) {
  const Stream& stream = compute_stream(device_);
  const Tensor values = Tensor::zeros({256}, DType::f32, MemoryCategory::data, device_);
  const RecordedWork work(stream, [&] {
    // Memory that lives inside of the recorded work.
    const Tensor inner = values.new_empty(values.shape(), DType::f32);
    inner.fill(7);
    values.copy_from(inner);
  });
  EXPECT_EQ(values.to_vector<float>(), std::vector<float>(256, 0));
  work.replay(stream);
  EXPECT_EQ(values.to_vector<float>(), std::vector<float>(256, 7));
  values.fill(1);
  work.replay(stream);
  EXPECT_EQ(values.to_vector<float>(), std::vector<float>(256, 7));
}

TEST_F(CoreAcceleratorTest, H_CUDA_07_OtherThreadsMayUseTheRuntimeMeanwhile) {
  const Stream& stream = compute_stream(device_);
  const Tensor values = Tensor::zeros({64}, DType::f32, MemoryCategory::data, device_);
  std::atomic<int> rounds{0};
  std::atomic<bool> recorded{false};
  // As a loader's thread does whose pictures grow: pinned memory comes and goes, and streams are waited for.
  std::thread loader([&] {
    const Stream copies(device_);
    while (!recorded || rounds < 3) {
      const PinnedBuffer staging(4096 * (rounds + 1));
      copies.synchronize();
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  const RecordedWork work(stream, [&] {
    values.fill(5);
    const int before = rounds;
    while (rounds < before + 2) std::this_thread::yield();
  });
  recorded = true;
  loader.join();
  work.replay(stream);
  EXPECT_EQ(values.to_vector<float>(), std::vector<float>(64, 5));
}

TEST_F(CoreAcceleratorTest, AnErrorWhileRecordingLeavesTheStreamUsable) {
  const Stream& stream = compute_stream(device_);
  EXPECT_THROW(RecordedWork(stream, [] { throw std::runtime_error("no"); }), std::runtime_error);
  // Waiting cannot be recorded.
  EXPECT_THROW(RecordedWork(stream, [&] { stream.synchronize(); }), kernels::CudaError);
  EXPECT_EQ(Tensor::zeros({2}, DType::f32, MemoryCategory::data, device_).to_vector<float>(), std::vector<float>(2, 0));
}

TEST_F(CoreAcceleratorTest, EventsOrderStreams) {
  const Stream first(device_), second(device_);
  const Tensor values = Tensor::zeros({1 << 16}, DType::f32, MemoryCategory::data, device_);
  PinnedBuffer result(static_cast<int64_t>(sizeof(float)) << 16);
  compute_stream(device_).synchronize();
  Event filled(device_, true), copied(device_, true);
  kernels::fill_cuda(3.0F, values.data<float>(), values.numel(), first.handle());
  filled.record(first);
  filled.hold(second);
  kernels::check_cuda(cudaMemcpyAsync(result.data(), values.raw(), static_cast<size_t>(result.bytes()),
                                      cudaMemcpyDeviceToHost, second.handle()),
                      "cudaMemcpyAsync");
  copied.record(second);
  copied.synchronize();
  EXPECT_EQ(reinterpret_cast<const float*>(result.data())[(1 << 16) - 1], 3.0F);
  EXPECT_GE(copied.milliseconds_since(filled), 0);
}

TEST_F(CoreAcceleratorTest, CopiesBetweenDevices) {
  if (describe_accelerators().size() < 2) GTEST_SKIP() << "one device only";
  const Tensor here = Tensor::from_vector<float>({3}, {1, 2, 3}).to(device_);
  const Tensor there = here.to(Device::accelerator(1));
  EXPECT_EQ(there.device().index, 1);
  EXPECT_EQ(there.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace engine::testing
