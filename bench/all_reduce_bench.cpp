// Bandwidth of the all-reduce by size and by bucket, and on GPUs where each process has one. Under mpirun:
// mpirun -np 2 bench_all_reduce; rank 0 reports.
// algorithm_bytes is the reduced buffer's, bus_bytes what a link carries for it (2 (n - 1) / n of it, as NCCL's tests
// count), both a second.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "engine/dist/device_communicator.h"
#include "engine/dist/processes.h"

namespace engine::bench {
namespace {

constexpr double kTimeout = 60;
constexpr int64_t kMegabyte = 1 << 20;
constexpr int64_t kResNet50Bytes = 25557032 * 4;

/// By NCCL; null where there are not enough GPUs.
std::unique_ptr<DeviceCommunicator>& devices() {
  static std::unique_ptr<DeviceCommunicator> communicator;
  return communicator;
}

Communicator*& world() {
  static Communicator* communicator = nullptr;
  return communicator;
}

void report(benchmark::State& state, int64_t bytes) {
  const double moved = static_cast<double>(state.iterations() * bytes), n = world()->size();
  state.counters["algorithm_bytes"] = benchmark::Counter(moved, benchmark::Counter::kIsRate);
  state.counters["bus_bytes"] = benchmark::Counter(2 * (n - 1) / n * moved, benchmark::Counter::kIsRate);
}

/// One all-reduce of so many bytes at a time.
void all_reduce_by_size(benchmark::State& state) {
  std::vector<float> values(static_cast<size_t>(state.range(0)) / sizeof(float), 1.0F);
  world()->barrier("begin");
  for ([[maybe_unused]] auto _ : state) world()->all_reduce("values", buffer_of(std::span(values)), ReduceOp::max);
  report(state, state.range(0));
}

/// Of device memory, each one to its end.
void all_reduce_on_gpus(benchmark::State& state) {
  const Stream& stream = devices()->stream();
  const int64_t count = state.range(0) / static_cast<int64_t>(sizeof(float));
  const Tensor values = Tensor::zeros(Shape{count}, DType::f32, MemoryCategory::gradients, stream.device());
  compute_stream(stream.device()).synchronize();
  world()->barrier("begin");
  for ([[maybe_unused]] auto _ : state) {
    devices()->enqueue({.kind = CollectiveKind::all_reduce, .name = "values", .buffer = buffer_of(values)}, stream);
    devices()->synchronize(stream);
  }
  report(state, state.range(0));
}

/// ResNet-50's gradients in buckets of so many MiB, all under way at once.
void all_reduce_by_bucket(benchmark::State& state) {
  std::vector<float> values(static_cast<size_t>(kResNet50Bytes) / sizeof(float), 1.0F);
  const int64_t bucket = state.range(0) * kMegabyte / static_cast<int64_t>(sizeof(float));
  world()->barrier("begin");
  for ([[maybe_unused]] auto _ : state) {
    std::vector<Request> requests;
    for (int64_t begin = 0; begin < static_cast<int64_t>(values.size()); begin += bucket) {
      const int64_t count = std::min(bucket, static_cast<int64_t>(values.size()) - begin);
      requests.push_back(
          world()->start_all_reduce("bucket", {values.data() + begin, count, DType::f32}, ReduceOp::max));
    }
    for (Request& request : requests) request.wait();
  }
  report(state, kResNet50Bytes);
}

}  // namespace
}  // namespace engine::bench

int main(int argc, char** argv) {
  using namespace engine::bench;
  const auto communicator = engine::connect_processes(kTimeout);
  world() = communicator.get();
  // Every process makes the same number of rounds, so it is fixed.
  const auto add = [](const char* name, auto* function, const std::vector<std::pair<int64_t, int64_t>>& rounds) {
    for (const auto& [size, count] : rounds) {
      benchmark::RegisterBenchmark(name, function)
          ->Arg(size)
          ->Iterations(count)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  };
  add("all_reduce/bytes", all_reduce_by_size,
      {{8, 300}, {4 << 10, 300}, {64 << 10, 300}, {kMegabyte, 100}, {16 * kMegabyte, 20}, {kResNet50Bytes, 5}});
  const int gpus = engine::kernels::kBuiltWithCuda ? static_cast<int>(engine::describe_accelerators().size()) : 0;
  if (gpus >= communicator->place().local_size && communicator->size() > 1) {
    devices() = engine::connect_devices(*communicator, engine::Device::accelerator(communicator->place().local_rank));
    add("all_reduce/gpu_bytes", all_reduce_on_gpus,
        {{64 << 10, 300}, {kMegabyte, 300}, {16 * kMegabyte, 100}, {kResNet50Bytes, 50}});
  }
  add("all_reduce/resnet50_in_buckets_of_mb", all_reduce_by_bucket, {{1, 5}, {5, 5}, {25, 5}, {100, 5}});
  benchmark::Initialize(&argc, argv);
  benchmark::ConsoleReporter console(benchmark::ConsoleReporter::OO_Tabular);
  class Silent final : public benchmark::BenchmarkReporter {
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>&) override {}
  } silent;
  benchmark::RunSpecifiedBenchmarks(communicator->rank() == 0 ? static_cast<benchmark::BenchmarkReporter*>(&console)
                                                              : &silent);
  benchmark::Shutdown();
  devices().reset();
  communicator->close();
  return 0;
}
