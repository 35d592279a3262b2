#pragma once

#include <chrono>

namespace engine::bench {

/// Wall time since its construction. Google Benchmark prints a rate with "/s" behind it, which a share of a peak is
/// not; so a share needs the loop's time.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace engine::bench
