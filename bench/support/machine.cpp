#include "bench/support/machine.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>

#include "kernels/common/parallel.h"

namespace engine::bench {
namespace {

constexpr int kRounds = 8;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
constexpr int kChains = 12;  // enough to hide the latency of two units, few enough for 16 registers

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The chains converge to 2, far from denormal numbers.
float multiply_add_chains(int64_t iterations) {
  Vector chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = Vector{} + static_cast<float>(i);
  const Vector factor = Vector{} + 0.5F, term = Vector{} + 1.0F;
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    for (Vector& value : chain) value = value * factor + term;
  }
  Vector sum{};
  for (const Vector& value : chain) sum += value;
  return sum[0];
}

double measure_flops(int threads) {
  constexpr int64_t kIterations = 4'000'000;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    float sum = 0;
    const double start = seconds();
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
    for (int thread = 0; thread < threads; ++thread) sum += multiply_add_chains(kIterations);
    benchmark::DoNotOptimize(sum);
    best = std::max(best, 2.0 * kLanes * kChains * kIterations * threads / (seconds() - start));
  }
  return best;
}

double measure_copy(int threads) {
  constexpr int64_t kBytes = int64_t{128} << 20;
  const std::unique_ptr<char[]> from(new char[kBytes]), to(new char[kBytes]);
  std::memset(from.get(), 1, kBytes);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; ++thread) {
      const kernels::Range part = kernels::share_of(kBytes, thread, threads);
      std::memcpy(to.get() + part.begin, from.get() + part.begin, static_cast<size_t>(part.end - part.begin));
    }
    best = std::max(best, 2.0 * kBytes / (seconds() - start));
  }
  return best;
}

double remembered(std::map<int, double>& results, int threads, double (*measure)(int)) {
  const auto found = results.find(threads);
  return found != results.end() ? found->second : results[threads] = measure(threads);
}

}  // namespace

double peak_flops(int threads) {
  static std::map<int, double> results;
  return remembered(results, threads, measure_flops);
}

double copy_bandwidth(int threads) {
  static std::map<int, double> results;
  return remembered(results, threads, measure_copy);
}

}  // namespace engine::bench
