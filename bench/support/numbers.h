#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/philox.h"

namespace engine::bench {

/// Memory that starts at a cache line, as the engine's tensors do.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  T* allocate(size_t count) { return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const CacheLineAllocator&) const = default;
};

template <typename T>
using Aligned = std::vector<T, CacheLineAllocator<T>>;
using Floats = Aligned<float>;

/// Numbers in [-0.5, 0.5) that depend on the seed alone.
inline Floats random_floats(int64_t count, uint64_t seed) {
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = kernels::Philox::uniform(kernels::Philox::block(seed, i / 4, 0)[i % 4]) - 0.5F;
  }
  return values;
}

/// Counters of a kernel that is bound by memory: the bytes it moves at least, a second, and their share of the copy
/// bandwidth with as many threads. Above 1 where the tensors fit into the cache.
inline void report_bytes(benchmark::State& state, int64_t bytes_a_call, double seconds) {
  using benchmark::Counter;
  const double bytes = static_cast<double>(bytes_a_call) * static_cast<double>(state.iterations());
  state.counters["bytes/s"] = Counter(bytes, Counter::kIsRate);
  state.counters["of_copy"] = bytes / seconds / copy_bandwidth(kernels::max_threads());
}

/// Registers the benchmark of a kernel that is bound by memory. prepare() makes the operands and returns the call to
/// time.
template <typename Prepare>
bool register_memory_benchmark(const std::string& name, int64_t bytes_a_call, Prepare prepare) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [bytes_a_call, prepare](benchmark::State& state) {
                                 auto call = prepare();
                                 const Stopwatch stopwatch;
                                 for (auto _ : state) {
                                   call();
                                   benchmark::ClobberMemory();
                                 }
                                 report_bytes(state, bytes_a_call, stopwatch.seconds());
                               })
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
  return true;
}

/// Activations behind ResNet-50's stem at batch 16, and its number of parameters.
inline constexpr int64_t kLargeActivation = int64_t{16} * 112 * 112 * 64, kParameters = 25557032;

}  // namespace engine::bench
