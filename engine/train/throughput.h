#pragma once
// Images a second and the share of time spent waiting for pictures, over the steps since the last logged one.

#include <chrono>
#include <cstdint>

namespace engine {

class Throughput {
 public:
  struct Rates {
    double images_per_second = 0;
    double data_wait_fraction = 0;
  };

  /// Begins to measure; `wait_seconds` is what the source counts so far. Called again behind anything that is not
  /// training: evaluation, a save.
  void restart(double wait_seconds);
  void add(int64_t images) { images_ += images; }
  /// Since the last start of a window.
  Rates rates(double wait_seconds) const;
  /// Seconds a step over the whole run, for the time left.
  double seconds_per_step() const { return steps_ == 0 ? 0 : step_seconds_ / static_cast<double>(steps_); }
  /// Ends a step of this many seconds' share in the average.
  void count_step();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_step_ = begin_;
  double wait_begin_ = 0;
  int64_t images_ = 0;
  int64_t steps_ = 0;
  double step_seconds_ = 0;
};

}  // namespace engine
