#include "bench/support/device.h"

#include <benchmark/benchmark.h>

#include <exception>

namespace engine::bench {
namespace {

using kernels::check_cuda;

// On a GPU; enough for a mean, few enough for all benchmarks of this project in a minute.
constexpr int kRuns = 10, kWarmUps = 2, kRepeats = 2;

std::string why_not() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  return status == cudaSuccess && devices > 0 ? "" : std::string("no GPU: ") + cudaGetErrorString(status);
}

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreateWithFlags"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream) { check_cuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord"); }
  double seconds_until(const Event& end) const {
    check_cuda(cudaEventSynchronize(end.event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event_, end.event_), "cudaEventElapsedTime");
    return milliseconds / 1000.0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Bytes a second of a copy within the GPU's memory, read and written.
double copy_rate() {
  static const double rate = [] {
    constexpr int64_t kBytes = int64_t{256} << 20;
    const DeviceMemory from = device_memory(kBytes), to = device_memory(kBytes);
    const auto copy = [&](cudaStream_t stream) {
      check_cuda(cudaMemcpyAsync(to->as<char>(), from->as<char>(), kBytes, cudaMemcpyDeviceToDevice, stream),
                 "cudaMemcpyAsync");
    };
    return 2.0 * kBytes / device_seconds(copy, kRuns, kWarmUps);
  }();
  return rate;
}

void run(benchmark::State& state, const std::function<DeviceWork()>& make) {
  const std::string reason = why_not();
  if (!reason.empty()) return state.SkipWithError(reason.c_str());
  try {
    const DeviceWork work = make();
    double seconds = 0;
    for (auto _ : state) {
      const double one =
          kernels::kBuiltWithCuda ? device_seconds(work.enqueue, kRuns, kWarmUps) : device_seconds(work.enqueue, 1, 0);
      state.SetIterationTime(one);
      seconds += one;
    }
    if (!kernels::kBuiltWithCuda) return state.SetLabel("emulated: small extents, and no speed");
    const auto count = static_cast<double>(state.iterations());
    if (work.flops > 0) state.counters["tflops"] = work.flops * count / seconds / 1e12;
    if (work.bytes == 0) return;
    state.counters["bytes_per_second"] = static_cast<double>(work.bytes) * count / seconds;
    state.counters["of_copy"] = static_cast<double>(work.bytes) * count / seconds / copy_rate();
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

std::vector<DeviceBenchmark>& registered() {
  static std::vector<DeviceBenchmark> all;
  return all;
}

}  // namespace

DeviceBytes::DeviceBytes(int64_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMalloc(&memory_, static_cast<size_t>(bytes)), "cudaMalloc");
  check_cuda(cudaMemsetAsync(memory_, 0, static_cast<size_t>(bytes), nullptr), "cudaMemsetAsync");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceBytes::~DeviceBytes() { cudaFree(memory_); }

DeviceMemory device_copy_of(const void* values, int64_t bytes) {
  DeviceMemory memory = device_memory(bytes);
  if (bytes == 0) return memory;
  check_cuda(cudaMemcpy(memory->as<void>(), values, static_cast<size_t>(bytes), cudaMemcpyHostToDevice), "cudaMemcpy");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return memory;
}

double device_seconds(const Enqueue& enqueue, int runs, int warm_ups) {
  const Stream stream;
  Event begin, end;
  for (int i = 0; i < warm_ups; ++i) enqueue(stream.get());
  begin.record(stream);
  for (int i = 0; i < runs; ++i) enqueue(stream.get());
  end.record(stream);
  return begin.seconds_until(end) / runs;
}

const std::vector<DeviceBenchmark>& device_benchmarks() { return registered(); }

bool register_device_benchmark(const std::string& name, const std::function<DeviceWork()>& make) {
  registered().push_back({name, make});
  benchmark::RegisterBenchmark(name.c_str(), [make](benchmark::State& state) { run(state, make); })
      ->UseManualTime()
      ->Iterations(kernels::kBuiltWithCuda ? kRepeats : 1)
      ->Unit(benchmark::kMicrosecond);
  return true;
}

}  // namespace engine::bench
