#include "kernels/emulator/checker_order.h"

#include <algorithm>
#include <bit>

namespace emulator {

void StreamOrder::join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

uint32_t StreamOrder::index(uint64_t stream) {
  const auto [found, fresh] = streams_.try_emplace(stream, static_cast<uint32_t>(clocks_.size()));
  if (fresh) clocks_.emplace_back(clocks_.size() + 1);
  return found->second;
}

Moment StreamOrder::next(uint64_t stream) {
  const uint32_t at = index(stream);
  Clock& clock = clocks_[at];
  join(clock, host_);
  const Moment moment{at, ++clock[at], clock};
  if (stream == 0) join(host_, clock);
  return moment;
}

void StreamOrder::record(uint64_t event, uint64_t stream) {
  Clock& clock = clocks_[index(stream)];
  join(clock, host_);
  events_[event] = clock;
}

void StreamOrder::wait(uint64_t stream, uint64_t event) {
  const auto found = events_.find(event);
  if (found != events_.end()) join(clocks_[index(stream)], found->second);
}

void StreamOrder::host_waits_for_stream(uint64_t stream) {
  join(host_, clocks_[index(stream)]);
  forget_events();
}

void StreamOrder::host_waits_for_event(uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  join(host_, found->second);
  forget_events();
}

void StreamOrder::host_waits_for_all() {
  for (const Clock& clock : clocks_) join(host_, clock);
  forget_events();
}

void StreamOrder::forget_events() {
  std::erase_if(events_, [&](const auto& event) {
    Clock joined = host_;
    join(joined, event.second);
    return joined == host_;
  });
}

bool StreamOrder::host_knows(const Moment& moment) const {
  return moment.stream < host_.size() && host_[moment.stream] >= moment.number;
}

void ThreadOrder::start_phase() {
  ++phase_;
  for (unsigned warp = 0; warp * 32 < threads_; ++warp) {
    Warp& w = warps_[warp];
    w.time = w.all_met = 0;
    if (w.in_part) w.known = {};
    w.in_part = false;
  }
}

void ThreadOrder::begin_operation() {
  start_phase();
  operation_phase_ = block_phase_ = phase_;
}

void ThreadOrder::begin_block(unsigned threads) {
  threads_ = threads;
  start_phase();
  block_phase_ = phase_;
}

void ThreadOrder::block_barrier() { start_phase(); }

void ThreadOrder::warp_barrier(unsigned warp, uint32_t mask) {
  Warp& w = warps_[warp];
  const uint32_t now = ++w.time;
  const unsigned lanes = std::min(threads_ - warp * 32, 32U);
  const uint32_t all = lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
  if ((mask & all) == all) {
    w.all_met = now;
    return;
  }
  w.in_part = true;
  std::array<uint32_t, 32> joined{};
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto& row = w.known[static_cast<size_t>(std::countr_zero(rest))];
    for (size_t i = 0; i < 32; ++i) joined[i] = std::max(joined[i], (mask >> i & 1) != 0 ? now : row[i]);
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) w.known[static_cast<size_t>(std::countr_zero(rest))] = joined;
}

bool ThreadOrder::met(unsigned warp, unsigned lane, uint32_t lanes, uint32_t time) const {
  const Warp& w = warps_[warp];
  if (time < w.all_met) return true;
  if (!w.in_part) return false;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    if (time >= w.known[lane][static_cast<size_t>(std::countr_zero(rest))]) return false;
  }
  return true;
}

}  // namespace emulator
