#pragma once

#include <cstdint>

#include "kernels/common/parallel.h"

namespace engine::kernels {

/// Calls f(part, range) for `parts` equal shares of [0, count), each part on a thread of its own where there are as
/// many. Unlike with parallel_for, f knows its part and may own a buffer for it. f must not throw.
template <typename F>
void parallel_shares(int64_t count, int64_t parts, F&& f) {
  if (parts == 1) {
    f(int64_t{0}, Range{0, count});
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) f(part, share_of(count, part, parts));
}

}  // namespace engine::kernels
