#pragma once
// Loops over OpenMP's threads. Chunks depend on the count and the number of threads alone, so results are bit-equal
// from run to run with the same number of threads.

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace engine::kernels {

/// Threads that a parallel loop will use; set with omp_set_num_threads() or --threads.
inline int max_threads() { return omp_get_max_threads(); }

struct Range {
  int64_t begin;
  int64_t end;
};

/// The part of [0, count) that belongs to one of `parts` equal shares; the first shares are larger by at most one.
inline Range share_of(int64_t count, int64_t part, int64_t parts) {
  const int64_t base = count / parts, extra = count % parts;
  const int64_t begin = part * base + std::min(part, extra);
  return {begin, begin + base + (part < extra ? 1 : 0)};
}

/// Calls f(begin, end) on disjoint ranges that cover [0, count), at least `grain` elements each, one range a thread.
/// f must not throw.
template <typename F>
void parallel_for(int64_t count, int64_t grain, F&& f) {
  if (count <= 0) return;
  const int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, max_threads());
  if (parts == 1) {
    f(int64_t{0}, count);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const Range range = share_of(count, part, parts);
    f(range.begin, range.end);
  }
}

}  // namespace engine::kernels
