#include "kernels/emulator/checker_races.h"

#include <algorithm>
#include <bit>

namespace emulator {
namespace {

constexpr uint32_t kLastTime = (1U << 19) - 1;

}  // namespace

void Races::begin_operation(const Moment& moment, std::string_view name) {
  threads.begin_operation();
  past_.push_back({threads.phase(), moment, std::string(name)});
  cached_begin_ = cached_end_ = 0;
  grown_.clear();
}

void Races::settle(const std::function<bool(const Moment&)>& over) {
  const auto keeps = std::find_if(past_.begin(), past_.end(), [&](const Past& entry) { return !over(entry.moment); });
  settled_ = keeps == past_.end() ? threads.phase() + 1 : keeps->first_phase;
  past_.erase(past_.begin(), keeps);
  cached_begin_ = cached_end_ = 0;
  if (!past_.empty()) return;
  first_set_ += static_cast<uint32_t>(sets_.size());
  sets_.clear();
  set_numbers_.clear();
}

const std::vector<uint32_t>& Races::set(uint32_t number) const {
  static const std::vector<uint32_t> empty;
  return number < first_set_ ? empty : sets_[number - first_set_];
}

const Races::Past* Races::past(uint32_t phase) const {
  const auto next = std::upper_bound(past_.begin(), past_.end(), phase,
                                     [](uint32_t p, const Past& entry) { return p < entry.first_phase; });
  return next == past_.begin() ? nullptr : &*std::prev(next);
}

std::string_view Races::operation(uint32_t phase) const {
  const Past* found = past(phase);
  return found == nullptr ? std::string_view() : found->name;
}

/// Whether an earlier operation is over before the running one begins.
bool Races::over(uint32_t phase) {
  if (phase < settled_) return true;
  if (phase >= cached_begin_ && phase < cached_end_) return cached_;
  const Past* found = past(phase);
  if (found == nullptr) return true;
  cached_begin_ = found->first_phase;
  cached_end_ = found + 1 == past_.data() + past_.size() ? UINT32_MAX : found[1].first_phase;
  cached_ = before(found->moment, running());
  return cached_;
}

Relation Races::relation(const Track& track, const Actor& actor) {
  if (track.phase == 0) return Relation::ordered;
  if (track.phase < threads.operation_phase()) {
    return over(track.phase) ? Relation::ordered : Relation::other_operation;
  }
  if (track.phase < threads.block_phase() || track.other >= threads.operation_phase()) return Relation::other_block;
  if (track.phase < threads.phase()) return Relation::ordered;
  if (track.several_warps) return Relation::same_block;
  const unsigned warp = actor.thread / 32, lane = actor.thread % 32;
  if (track.thread / 32 != warp) return Relation::same_block;
  const uint32_t others = track.lanes & ~(1U << lane);
  if (others == 0 || threads.met(warp, lane, others, track.time)) return Relation::ordered;
  return Relation::same_block;
}

uint32_t Races::culprit(const Track& track, Relation relation) const {
  return relation == Relation::other_block && track.phase >= threads.block_phase() ? track.other : track.phase;
}

/// The last thread, or another lane where that is the actor itself.
uint32_t Races::other_thread(const Track& track, const Actor& actor) {
  const uint32_t others = track.lanes & ~(1U << actor.thread % 32);
  if (track.thread != actor.thread || others == 0 || track.several_warps) return track.thread;
  return actor.thread / 32 * 32 + static_cast<uint32_t>(std::countr_zero(others));
}

void Races::mark(Track& track, const Actor& actor) {
  const uint32_t phase = threads.phase(), lane = 1U << actor.thread % 32;
  const unsigned warp = actor.thread / 32;
  if (track.phase == phase) {
    const bool alone = !track.several_warps && track.thread / 32 == warp &&
                       (track.lanes == lane || threads.met(warp, actor.thread % 32, track.lanes & ~lane, track.time));
    if (track.thread / 32 != warp) track.several_warps = 1;
    track.lanes = alone ? lane : track.lanes | lane;
  } else {
    if (track.phase < threads.operation_phase()) {
      track.other = 0;
    } else if (track.phase < threads.block_phase()) {
      track.other = track.phase;
    }
    track.phase = phase;
    track.lanes = lane;
    track.several_warps = 0;
  }
  track.thread = actor.thread & 1023U;
  track.time = std::min(threads.time(warp), kLastTime);
  track.atomic = actor.atomic;
  track.erased = actor.erases;
}

uint32_t Races::with_reader(uint32_t number, uint32_t phase) {
  if (number < first_set_ && over(phase)) return 0;
  const Past* reader = past(phase);
  const uint32_t first = reader == nullptr ? 0 : reader->first_phase;
  const auto [known, fresh] = grown_.try_emplace(uint64_t{number} << 32 | first, 0);
  if (!fresh) return known->second;
  std::vector<uint32_t> grown;
  for (const uint32_t member : set(number)) {
    if (!over(member)) grown.push_back(member);
  }
  if (first != 0 && !over(first)) grown.push_back(first);
  if (grown.empty()) return 0;
  const auto next = first_set_ + static_cast<uint32_t>(sets_.size());
  const auto [same, unknown] = set_numbers_.try_emplace(grown, next);
  if (unknown) sets_.push_back(grown);
  return known->second = same->second;
}

void Races::check_readers(const Cell& cell, Visit& visit) {
  for (const uint32_t member : set(cell.readers)) {
    if (!over(member)) visit = {Relation::other_operation, visit.unwritten, false, member, 0, 0};
  }
}

Visit Races::visit(Cell& cell, const Actor& actor, bool shared) {
  if (shared) {
    if (cell.write.phase < threads.block_phase()) cell.write = {};
    if (cell.read.phase < threads.block_phase()) cell.read = {};
  }
  Visit visit;
  const Relation write = relation(cell.write, actor);
  if (write != Relation::ordered && !(actor.atomic && cell.write.atomic)) {
    visit = {write, false, true, culprit(cell.write, write), other_thread(cell.write, actor), cell.write_site};
  }
  if (!actor.write) {
    visit.unwritten = !written(cell);
    if (actor.atomic) return visit;
    if (cell.read.phase != 0 && cell.read.phase < threads.operation_phase()) {
      cell.readers = with_reader(cell.readers, cell.read.phase);
    }
    mark(cell.read, actor);
    cell.read_site = actor.site;
    return visit;
  }
  const Relation read = relation(cell.read, actor);
  if (read != Relation::ordered && visit.race == Relation::ordered) {
    visit = {read, false, false, culprit(cell.read, read), other_thread(cell.read, actor), cell.read_site};
  }
  if (cell.readers != 0) check_readers(cell, visit);
  cell.read = {};
  cell.readers = 0;
  if (!actor.atomic || !cell.write.atomic) cell.write = {};
  mark(cell.write, actor);
  cell.write_site = actor.site;
  return visit;
}

}  // namespace emulator
