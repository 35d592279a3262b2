#include "bench/support/device.h"

#include <benchmark/benchmark.h>

namespace engine::bench {
namespace {

using kernels::check_cuda;

constexpr int kRuns = 20, kWarmUps = 3;

std::string why_not() {
  if (!kernels::kBuiltWithCuda) return "no GPU: this build has the emulated device, which has no time";
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  return status == cudaSuccess && devices > 0 ? "" : std::string("no GPU: ") + cudaGetErrorString(status);
}

/// Seconds of one of kRuns runs, by the device's clock.
double seconds_of(const Enqueue& enqueue) {
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaEventCreateWithFlags(&begin, cudaEventDefault), "cudaEventCreateWithFlags");
  check_cuda(cudaEventCreateWithFlags(&end, cudaEventDefault), "cudaEventCreateWithFlags");
  for (int i = 0; i < kWarmUps; ++i) enqueue(stream);
  check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
  for (int i = 0; i < kRuns; ++i) enqueue(stream);
  check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return milliseconds / 1000.0 / kRuns;
}

/// Bytes a second of a copy within the GPU's memory, read and written.
double copy_rate() {
  static const double rate = [] {
    constexpr int64_t kBytes = int64_t{256} << 20;
    const DeviceMemory from = device_memory(kBytes), to = device_memory(kBytes);
    return 2.0 * kBytes / seconds_of([&](cudaStream_t stream) {
             check_cuda(cudaMemcpyAsync(to->as<char>(), from->as<char>(), kBytes, cudaMemcpyDeviceToDevice, stream),
                        "cudaMemcpyAsync");
           });
  }();
  return rate;
}

}  // namespace

DeviceBytes::DeviceBytes(int64_t bytes) {
  check_cuda(cudaMalloc(&memory_, static_cast<size_t>(bytes)), "cudaMalloc");
  check_cuda(cudaMemsetAsync(memory_, 0, static_cast<size_t>(bytes), nullptr), "cudaMemsetAsync");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceBytes::~DeviceBytes() { cudaFree(memory_); }

bool register_device_benchmark(const std::string& name, int64_t bytes, const std::function<Enqueue()>& make) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 const std::string reason = why_not();
                                 if (!reason.empty()) return state.SkipWithError(reason.c_str());
                                 const Enqueue enqueue = make();
                                 double seconds = 0;
                                 for (auto _ : state) {
                                   seconds = seconds_of(enqueue);
                                   state.SetIterationTime(seconds);
                                 }
                                 state.counters["bytes_per_second"] = static_cast<double>(bytes) / seconds;
                                 state.counters["of_copy"] = static_cast<double>(bytes) / seconds / copy_rate();
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  return true;
}

}  // namespace engine::bench
