#include "engine/train/throughput.h"

#include <algorithm>

namespace engine {
namespace {

double seconds(std::chrono::steady_clock::duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

void Throughput::restart(double wait_seconds) {
  begin_ = last_step_ = Clock::now();
  wait_begin_ = wait_seconds;
  images_ = 0;
}

Throughput::Rates Throughput::rates(double wait_seconds) const {
  const double elapsed = std::max(seconds(Clock::now() - begin_), 1e-9);
  return {static_cast<double>(images_) / elapsed, std::clamp((wait_seconds - wait_begin_) / elapsed, 0.0, 1.0)};
}

void Throughput::count_step() {
  const auto now = Clock::now();
  step_seconds_ += seconds(now - last_step_);
  last_step_ = now;
  ++steps_;
}

}  // namespace engine
