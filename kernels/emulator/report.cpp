#include "kernels/emulator/report.h"

#include <algorithm>

namespace emulator {
namespace {

/// Number of different values; sorts them.
unsigned distinct(uint32_t* values, unsigned count) {
  if (!std::is_sorted(values, values + count)) std::sort(values, values + count);
  return static_cast<unsigned>(std::unique(values, values + count) - values);
}

/// Passes that lanes need which are served together.
int passes(const uint32_t* addresses, unsigned count, uint32_t size) {
  std::array<uint32_t, 32> words;
  unsigned used = 0;
  for (unsigned i = 0; i < count; ++i) {
    for (uint32_t word = 0; word < std::max(size / 4, 1U) && used < words.size(); ++word) {
      words[used++] = addresses[i] / 4 + word;
    }
  }
  used = distinct(words.data(), used);
  std::array<int, 32> banks{};
  int most = 1;
  for (unsigned i = 0; i < used; ++i) most = std::max(most, ++banks[words[i] % 32]);
  return most;
}

/// Larger accesses are served in turns: by half warps with 8 bytes a lane, by quarter warps with 16.
int conflict_degree(uint32_t lanes, const uint32_t* addresses, uint32_t size) {
  const unsigned together = size <= 4 ? 32 : size == 8 ? 16 : 8;
  int worst = 1;
  for (unsigned first = 0; first < 32; first += together) {
    const uint32_t mask = together == 32 ? 0xFFFFFFFFU : ((1U << together) - 1) << first;
    const auto count = static_cast<unsigned>(__builtin_popcount(lanes & mask));
    worst = std::max(worst, passes(addresses, count, size));
    addresses += count;
  }
  return worst;
}

double share(int64_t part, int64_t whole, double of_nothing) {
  return whole == 0 ? of_nothing : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double KernelReport::coalescing() const { return share(bytes_used, 32 * sectors, 1); }
double KernelReport::vector_share() const { return share(vector_bytes, bytes_used, 0); }
double KernelReport::divergence() const { return share(idle_requests, requests, 0); }

void Requests::clear() {
  counts_.fill(0);
  lanes_.clear();
  addresses_.clear();
}

void count_global(KernelReport& report, const Requests& requests, uint32_t size, uint32_t warp_lanes) {
  requests.each([&](uint32_t lanes, uint32_t* addresses, unsigned count) {
    const unsigned used = distinct(addresses, count);
    unsigned sectors = 0;
    uint32_t last = 0;
    for (unsigned i = 0; i < used; ++i) {
      const uint32_t sector = addresses[i] / 32;
      if (i == 0 || sector != last) ++sectors;
      last = sector;
    }
    ++report.requests;
    report.idle_requests += lanes != warp_lanes;
    report.sectors += sectors;
    report.bytes_used += int64_t{used} * size;
    if (size == 16) report.vector_bytes += int64_t{used} * size;
  });
}

void count_shared(KernelReport& report, const Requests& requests, uint32_t size, uint32_t warp_lanes) {
  requests.each([&](uint32_t lanes, uint32_t* addresses, unsigned) {
    ++report.requests;
    report.idle_requests += lanes != warp_lanes;
    report.bank_conflicts = std::max(report.bank_conflicts, conflict_degree(lanes, addresses, size));
  });
}

}  // namespace emulator
