// Several devices, names of errors, versions.

#include <stdexcept>
#include <thread>

#include "tests/emulator/emulator_fixture.h"

namespace engine::testing {
namespace {

using kernels::launch;

class EmulatorDevice : public EmulatorTest {};

void add_kernel(int* x, int value) { x[threadIdx.x] += value; }

TEST_F(EmulatorDevice, Properties) {
  int devices = 0;
  EXPECT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  EXPECT_EQ(devices, 2);
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "Emulated device");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.totalGlobalMem, size_t{8} << 30);
  EXPECT_GE(properties.multiProcessorCount, 1);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
  int driver = 0, runtime = 0;
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_GE(driver, runtime);
}

TEST_F(EmulatorDevice, EachThreadHasItsDevice) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  int here = -1, there = -1;
  std::thread([&] { cudaGetDevice(&there); }).join();
  EXPECT_EQ(cudaGetDevice(&here), cudaSuccess);
  EXPECT_EQ(here, 1);
  EXPECT_EQ(there, 0);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
}

TEST_F(EmulatorDevice, StreamsAndEventsBelongToDevices) {
  const DeviceArray<int> x(std::vector<int>{1});
  const Event here;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_THROW(launch<add_kernel>({.block = 1}, stream(), x.data(), 1), kernels::CudaError);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  const cudaStream_t there = create(cudaStreamNonBlocking);
  EXPECT_EQ(cudaEventRecord(here.get(), there), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(here.get(), stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(there, here.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(there), cudaSuccess);
}

TEST_F(EmulatorDevice, MemoryAndWorkAreApart) {
  const DeviceArray<int> x(std::vector<int>{1});
  size_t free[2], total = 0;
  launch<add_kernel>({.block = 1}, stream(), x.data(), 1);
  EXPECT_EQ(cudaMemGetInfo(&free[0], &total), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free[1], &total), cudaSuccess);
  EXPECT_EQ(free[1] - free[0], 4U);
  const DeviceArray<int> y(std::vector<int>{10});
  EXPECT_EQ(emulator::find_allocation(y.data())->device, 1);
  const uint64_t before = emulator::counters().kernels;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(emulator::counters().kernels, before);  // the other device's
  EXPECT_EQ(emulator::synchronize_all(), cudaSuccess);
  EXPECT_EQ(emulator::counters().kernels, before + 1);
}

TEST_F(EmulatorDevice, PeerCopies) {
  const DeviceArray<int> x(std::vector<int>{1, 2, 3});
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceArray<int> y(3);
  EXPECT_EQ(cudaMemcpyPeerAsync(y.data(), 0, x.data(), 0, 12, stream()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeerAsync(y.data(), 1, x.data(), 2, 12, stream()), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemcpyPeerAsync(y.data(), 1, x.data(), 0, 12, stream()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_EQ(y.read(), (std::vector<int>{1, 2, 3}));
}

TEST_F(EmulatorDevice, NumberOfDevicesIsASetting) {
  emulator::Settings settings;
  settings.devices = 4;
  emulator::configure(settings);
  EXPECT_EQ(cudaSetDevice(3), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_THROW(emulator::configure({}), std::invalid_argument);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  settings.devices = 0;
  EXPECT_THROW(emulator::configure(settings), std::invalid_argument);
  emulator::configure({});
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST_F(EmulatorDevice, ErrorsHaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorStreamCaptureUnjoined), "cudaErrorStreamCaptureUnjoined");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNotReady), "not done yet");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(EmulatorDevice, LastErrorIsTheThreadsOwn) {
  EXPECT_EQ(cudaSetDevice(9), cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorInvalidDevice;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  EXPECT_EQ(elsewhere, cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace engine::testing
