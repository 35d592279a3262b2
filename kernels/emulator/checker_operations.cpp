// Streams, memory and operations: what the program asks for, and what runs in consequence.

#include <algorithm>
#include <functional>
#include <string_view>

#include "kernels/emulator/access_hooks.h"
#include "kernels/emulator/checker_state.h"
#include "kernels/emulator/execution.h"

namespace emulator {
namespace {

size_t hash_of(const Span& span) {
  return std::hash<std::string_view>{}({static_cast<const char*>(span.pointer), span.bytes});
}

uintptr_t address_of(const Span& span) { return reinterpret_cast<uintptr_t>(span.pointer); }

std::string shape_text(dim3 shape) {
  return "(" + std::to_string(shape.x) + ", " + std::to_string(shape.y) + ", " + std::to_string(shape.z) + ")";
}

}  // namespace

void Checker::enqueued(uint64_t stream, uint64_t operation) {
  const std::lock_guard lock(mutex_);
  pending_[operation] = order_.next(stream);
}

void Checker::will_run(uint64_t operation, const Operation& what) {
  if (what.kind != OperationKind::copy) return;
  const std::lock_guard lock(mutex_);
  for (const Span& span : what.reads) {
    memory_.each([&](const Memory& memory) {
      const uintptr_t offset = address_of(span) - memory.begin();
      if (!memory.pinned() || memory.death || offset >= memory.allocation.bytes) return;
      if (span.bytes <= memory.allocation.bytes - offset) snapshots_[operation].push_back({span, hash_of(span)});
    });
  }
}

void Checker::launch_refused(const Operation& what) {
  name_ = what.name;
  report(FindingKind::launch_shape, nullptr, "grid " + shape_text(what.grid) + " of blocks " + shape_text(what.block));
}

void Checker::event_recorded(uint64_t event, uint64_t stream) {
  const std::lock_guard lock(mutex_);
  order_.record(event, stream);
}

void Checker::stream_waits(uint64_t stream, uint64_t event) {
  const std::lock_guard lock(mutex_);
  order_.wait(stream, event);
}

void Checker::host_waits_for_stream(uint64_t stream) {
  const std::lock_guard lock(mutex_);
  order_.host_waits_for_stream(stream);
  settle();
}

void Checker::host_waits_for_event(uint64_t event) {
  const std::lock_guard lock(mutex_);
  order_.host_waits_for_event(event);
  settle();
}

void Checker::host_waits_for_all() {
  const std::lock_guard lock(mutex_);
  order_.host_waits_for_all();
  settle();
}

void Checker::settle() {
  // Operations that a fault of the device has skipped.
  std::erase_if(pending_, [&](const auto& entry) { return order_.host_knows(entry.second); });
  if (running_) return;
  races_.settle([&](const Moment& moment) {
    return order_.host_knows(moment) && std::all_of(pending_.begin(), pending_.end(),
                                                    [&](const auto& entry) { return before(moment, entry.second); });
  });
}

void Checker::adopt(const Allocation& allocation) {
  Memory& memory = memory_.add(allocation, order_.next(0));
  memory.assume_written = memory.old = true;
}

void Checker::allocated(const Allocation& allocation, uint64_t stream) {
  const std::lock_guard lock(mutex_);
  memory_.add(allocation, order_.next(stream));
}

void Checker::freed(const Allocation& allocation, uint64_t stream) {
  std::string user;
  {
    const std::lock_guard lock(mutex_);
    Memory* memory = memory_.find(allocation.id);
    if (memory == nullptr) return;
    memory->death = order_.next(stream);
    for (const Use& use : memory->uses) {
      if (!before(Moment{use.stream, use.number, {}}, *memory->death)) user = use.name;
    }
    if (!running_) name_ = allocation.device < 0 ? "cudaFreeHost" : "cudaFreeAsync";
  }
  if (user.empty()) return;
  report(FindingKind::after_free, nullptr,
         "gives back " + std::to_string(allocation.bytes) + " bytes that " + user + " uses, nothing orders the two");
}

void Checker::check_snapshots(uint64_t operation) {
  const auto found = snapshots_.find(operation);
  if (found == snapshots_.end()) return;
  for (const Snapshot& snapshot : found->second) {
    const Region* region = memory_.region(address_of(snapshot.span));
    if (region == nullptr || hash_of(snapshot.span) == snapshot.hash) continue;
    report(FindingKind::pinned_reuse, nullptr,
           std::to_string(snapshot.span.bytes) + " bytes at offset " +
               std::to_string(address_of(snapshot.span) - region->begin) + " of pinned memory, written by the host " +
               "between the call that copies from there and the copy");
  }
  snapshots_.erase(found);
}

/// What the device itself wrote into pinned memory is not the host's doing.
void Checker::forget_snapshots() {
  if (snapshots_.empty()) return;
  memory_.each([&](const Memory& memory) {
    if (!memory.pinned() || !memory.changed) return;
    for (auto& [operation, snapshots] : snapshots_) {
      std::erase_if(snapshots, [&](const Snapshot& snapshot) {
        return address_of(snapshot.span) - memory.begin() < memory.allocation.bytes;
      });
    }
  });
}

void Checker::begin_operation(uint64_t operation, const Operation& what) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(operation);
    const Moment moment = found == pending_.end() ? order_.next(0) : found->second;
    if (found != pending_.end()) pending_.erase(found);
    memory_.forget_dead(order_);
    memory_.enter(moment);
    races_.begin_operation(moment, what.name);
    name_ = what.name;
    kernel_ = std::hash<std::string_view>{}(what.name);
    operation_ = operation;
    running_ = true;
    blocks_.clear();
    shared_.clear();
    block_shape_ = what.block;
    grid_shape_ = what.grid;
    threads_ = what.block.x * what.block.y * what.block.z;
    report_ = nullptr;
    if (what.kind == OperationKind::kernel) {
      auto& report = reports_[name_];
      report.name = name_;
      ++report.launches;
      report.block = std::max<int64_t>(report.block, threads_);
      if (what.bytes == 0 || (report.launches > 1 && !report.header_bytes)) {
        report.header_bytes.reset();
      } else {
        report.header_bytes = report.header_bytes.value_or(0) + what.bytes;
      }
      report_ = &report;
    }
  }
  if (what.kind == OperationKind::allocation || what.kind == OperationKind::release) {
    for (const Span& span : what.writes) give(span, what.kind == OperationKind::release);
    return;
  }
  if (what.kind == OperationKind::copy) check_snapshots(operation);
  for (const Span& span : what.reads) touch(span, false);
  if (what.kind == OperationKind::copy && what.reads.size() == 1 && what.writes.size() == 1) {
    copy(what.reads[0], what.writes[0]);
  } else {
    for (const Span& span : what.writes) touch(span, true);
  }
}

void Checker::end_operation() {
  settle_doubts(false);
  const std::lock_guard lock(mutex_);
  forget_snapshots();
  memory_.leave(races_.running(), name_);
  running_ = false;
  settle();
}

/// An operation that is no kernel reads or writes a span. What is neither device nor pinned memory is the host's.
void Checker::touch(const Span& span, bool write) {
  if (span.bytes == 0) return;
  const uintptr_t begin = address_of(span);
  const Region* region = memory_.region(begin);
  if (region == nullptr || begin + span.bytes > region->begin + region->bytes) {
    const Miss miss = region == nullptr ? memory_.explain(begin, races_.running())
                                        : Miss{FindingKind::out_of_bounds,
                                               "offset " + std::to_string(begin - region->begin) +
                                                   " of an allocation of " + std::to_string(region->bytes) + " bytes",
                                               false};
    if (miss.kind == FindingKind::host_memory) return;
    report(miss.kind, nullptr, (write ? "writes " : "reads ") + std::to_string(span.bytes) + " bytes at " + miss.where);
    return;
  }
  touch_region(*region, begin, span.bytes, write);
}

void Checker::touch_region(const Region& region, uintptr_t begin, size_t bytes, bool write) {
  Memory& memory = *region.memory;
  memory.touched = true;
  memory.changed = memory.changed || write;
  bool raced = false, unwritten = false;
  Visit race;
  Shadow::pieces(begin, bytes, [&](uintptr_t at, size_t piece) {
    for (Cell& cell : memory.shadow.cells(at, piece)) {
      const Visit visit = races_.visit(cell, {0, 0, write, false, false}, false);
      if (visit.race != Relation::ordered && !raced) race = visit, raced = true;
      unwritten = unwritten || visit.unwritten;
    }
    if (write && piece == Shadow::kPageBytes) memory.shadow.merge(at);
  });
  const Access access{begin, bytes, write, false, 0, nullptr};
  if (raced) report_race(access, race, false);
  if (!unwritten || memory.assume_written) return;
  // Copies may carry gaps along that nobody reads.
  const bool copies = name_.starts_with("cudaMemcpy");
  if (copies && any_written(region, begin, bytes)) return;
  report(FindingKind::unwritten_global, nullptr,
         "reads " + std::to_string(bytes) + " bytes at offset " + std::to_string(begin - region.begin) +
             " of an allocation of " + std::to_string(region.bytes) + " bytes");
}

bool Checker::any_written(const Region& region, uintptr_t begin, size_t bytes) {
  bool any = false;
  Shadow::pieces(begin, bytes, [&](uintptr_t at, size_t piece) {
    for (const Cell& cell : region.memory->shadow.cells(at, piece)) any = any || Races::written(cell);
  });
  return any;
}

/// The target is written where the source is.
void Checker::copy(const Span& from, const Span& to) {
  touch(to, true);
  const uintptr_t source = address_of(from), target = address_of(to);
  const Region *read = memory_.region(source), *written = memory_.region(target);
  if (read == nullptr || written == nullptr || read->memory->assume_written || written->memory->assume_written) return;
  bool gaps = false;
  Shadow::pieces(source, from.bytes, [&](uintptr_t at, size_t piece) {
    for (const Cell& cell : read->memory->shadow.cells(at, piece)) gaps = gaps || !Races::written(cell);
  });
  if (!gaps) return;
  const size_t step = (source | target | from.bytes) % 4 == 0 ? 4 : 1;
  for (size_t i = 0; i < from.bytes; i += step) {
    const bool has = Races::written(read->memory->shadow.cells(source + i, step).front());
    for (Cell& cell : written->memory->shadow.cells(target + i, step)) cell.write.erased = !has;
  }
}

/// A graph gives memory to those that follow, or takes it back. Other memory's life is told when the program calls.
void Checker::give(const Span& span, bool back) {
  Memory* memory = memory_.find_at(span.pointer);
  if (memory == nullptr || memory->death || memory->birth.stream != 0) return;
  memory->given_back = back;
  memory->touched = true;
  Visit race;
  Shadow::pieces(memory->begin(), memory->allocation.bytes, [&](uintptr_t at, size_t piece) {
    for (Cell& cell : memory->shadow.cells(at, piece)) {
      const Visit visit = races_.visit(cell, {0, 0, true, false, true}, false);
      if (visit.race != Relation::ordered) race = visit;
    }
    if (piece == Shadow::kPageBytes) memory->shadow.merge(at);
  });
  if (race.race == Relation::ordered) return;
  report_race({memory->begin(), memory->allocation.bytes, true, false, 0, nullptr}, race, false);
}

void Checker::begin_block(uint3 block) {
  races_.threads.begin_block(threads_);
  blocks_.emplace_back(races_.threads.phase(), block);
  const auto shared = reinterpret_cast<uintptr_t>(shared_memory().pointer);
  if (shared != shared_begin_) {
    shared_begin_ = shared;
    shared_ = Shadow(shared, kMaxSharedBytes);
  }
  std::fill_n(last_pc_.begin(), threads_, nullptr);
  in_block_ = true;
  watch_accesses();
}

void Checker::end_block() {
  unwatch_accesses();
  in_block_ = false;
  flush_all();
  settle_doubts(true);
}

}  // namespace emulator
