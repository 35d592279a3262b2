// Accesses of kernel threads.

#include <algorithm>
#include <stdexcept>

#include "kernels/emulator/checker_state.h"
#include "kernels/emulator/execution.h"

namespace emulator {
namespace {

std::string bytes_text(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string indices(uint3 at, dim3 shape) {
  if (shape.y == 1 && shape.z == 1) return std::to_string(at.x);
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

}  // namespace

std::string Checker::thread_name(uint32_t thread) const {
  const dim3 shape = block_shape_;
  return indices({thread % shape.x, thread / shape.x % shape.y, thread / shape.x / shape.y}, shape);
}

const std::pair<uint32_t, uint3>* Checker::block_of(uint32_t phase) const {
  const auto next = std::upper_bound(blocks_.begin(), blocks_.end(), phase,
                                     [](uint32_t p, const auto& entry) { return p < entry.first; });
  return next == blocks_.begin() ? nullptr : &*std::prev(next);
}

std::string Checker::block_name(uint32_t phase) const {
  const auto* block = block_of(phase);
  return block == nullptr ? "?" : indices(block->second, grid_shape_);
}

void Checker::access(const void* address, size_t bytes, bool write, bool atomic, const void* pc) {
  if (!in_block_) return;
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (!write && at - image_begin_ < image_bytes_) return;
  const bool shared = at - shared_begin_ < kMaxSharedBytes;
  Site& site = sites_.find(pc, bytes, shared);
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  Access access{at, bytes, write, atomic, thread, &site};
  bool assume_written = false;
  Shadow* const shadow = access.shadow = shadow_of(access, assume_written);
  if (shadow == nullptr) return;
  last_pc_[thread] = pc;
  if (at % bytes != 0) misaligned(access);
  for (Cell& cell : shadow->cells(at, bytes)) check(access, cell, shared, assume_written);
  const unsigned warp = thread / 32;
  if (site.warps.size() <= warp) site.warps.resize(warp + 1);
  if (site.warps[warp].add(thread % 32, static_cast<uint32_t>(at))) asked_[warp].push_back(&site);
}

Shadow* Checker::shadow_of(const Access& access, bool& assume_written) {
  if (!access.site->shared) return global_shadow(access, assume_written);
  const Span declared = shared_memory();
  const uintptr_t offset = access.address - shared_begin_;
  if (offset + access.bytes > declared.bytes) {
    report(FindingKind::out_of_bounds, &access,
           (access.write ? "writes " : "reads ") + bytes_text(access.bytes) + " at offset " + std::to_string(offset) +
               " of " + bytes_text(declared.bytes) + " of shared memory");
    return nullptr;
  }
  return &shared_;
}

Shadow* Checker::global_shadow(const Access& access, bool& assume_written) {
  Site& site = *access.site;
  const Region* region = site.region_of == operation_ ? site.region : nullptr;
  if (region == nullptr || access.address - region->begin >= region->bytes) region = memory_.region(access.address);
  if (region == nullptr || access.address + access.bytes > region->begin + region->bytes) {
    outside(access);
    return nullptr;
  }
  site.region = region;
  site.region_of = operation_;
  Memory& memory = *region->memory;
  memory.touched = true;
  memory.changed = memory.changed || access.write;
  assume_written = memory.assume_written;
  return &memory.shadow;
}

/// Returns where a device would go on, or where the access is none of the kernel's.
void Checker::outside(const Access& access) {
  if (access.site->launcher) return;
  const Span stack = thread_stack();
  if (access.address - reinterpret_cast<uintptr_t>(stack.pointer) < stack.bytes) return;
  const Region* cut = memory_.region(access.address);
  const Miss miss = cut != nullptr ? Miss{FindingKind::out_of_bounds,
                                          "offset " + std::to_string(access.address - cut->begin) +
                                              " of an allocation of " + bytes_text(cut->bytes),
                                          false}
                                   : memory_.explain(access.address, races_.running());
  // The launcher and std::function read the kernel's arguments, which lie in host memory.
  if (miss.kind == FindingKind::host_memory && !Places::get().in_kernel_source(access.site->pc)) {
    access.site->launcher = true;
    return;
  }
  std::string details = (access.write ? "writes " : "reads ") + bytes_text(access.bytes);
  if (!miss.where.empty()) details += " at " + miss.where;
  report(miss.kind, &access, details);
  if (miss.fatal) throw std::runtime_error(std::string(describe(miss.kind)) + ": " + details);
}

void Checker::misaligned(const Access& access) {
  const std::string details = (access.write ? "writes " : "reads ") + bytes_text(access.bytes) +
                              " at an address that is a multiple of " +
                              std::to_string(access.address & (~access.address + 1)) + " only";
  report(FindingKind::misaligned, &access, details);
  throw std::runtime_error(std::string(describe(FindingKind::misaligned)) + ": " + details);
}

void Checker::check(const Access& access, Cell& cell, bool shared, bool assume_written) {
  const uint16_t site = access.site == nullptr ? uint16_t{0} : access.site->number;
  const Visit visit = races_.visit(cell, {access.thread, site, access.write, access.atomic}, shared);
  if (visit.race != Relation::ordered) report_race(access, visit, shared);
  if (!visit.unwritten || assume_written) return;
  const FindingKind kind = shared ? FindingKind::unwritten_shared : FindingKind::unwritten_global;
  if (!news(access.site, kind)) return;
  access.site->reported |= 1U << static_cast<unsigned>(kind);
  doubts_.push_back({describe_finding(kind, &access, "reads " + bytes_text(access.bytes), nullptr), access,
                     races_.threads.block_phase()});
}

/// At the end of a phase for shared memory, of the operation for global memory.
void Checker::settle_doubts(bool shared) {
  if (doubts_.empty()) return;
  std::erase_if(doubts_, [&](Doubt& doubt) {
    const Access& access = doubt.access;
    if (access.site->shared != shared) return false;
    bool raced = false;
    for (const Cell& cell : access.shadow->cells(access.address, access.bytes)) {
      const auto* writer = block_of(cell.write.phase);
      if (writer == nullptr || (shared && writer->first != doubt.block)) continue;
      raced = raced || writer->first != doubt.block || cell.write.thread != access.thread;
    }
    if (!raced) keep(std::move(doubt.raw));
    return true;
  });
}

void Checker::report_race(const Access& access, const Visit& visit, bool shared) {
  const bool between = visit.race == Relation::other_operation;
  const FindingKind kind = between  ? FindingKind::stream_race
                           : shared ? FindingKind::shared_race
                                    : FindingKind::global_race;
  if (!news(access.site, kind)) return;
  std::string who;
  if (between) {
    who = std::string(races_.operation(visit.phase));
  } else {
    if (visit.race == Relation::other_block) who = "block " + block_name(visit.phase) + " ";
    who += "thread " + thread_name(visit.thread);
  }
  const std::string other = who + (visit.with_write ? " wrote" : " read") + (visit.site == 0 ? "" : " (@)");
  const char* missing = between                                   ? "nothing orders the two"
                        : visit.race == Relation::other_block     ? "blocks have no order"
                        : visit.thread / 32 == access.thread / 32 ? "no barrier of block or warp between"
                                                                  : "no barrier between";
  report(kind, &access,
         (access.write ? (access.atomic ? "changes " : "writes ") : "reads ") + bytes_text(access.bytes) + " that " +
             other + ", " + missing,
         sites_.pc(visit.site));
}

void Checker::flush(unsigned warp) {
  const uint32_t lanes = std::min(threads_ - warp * 32, 32U);
  const uint32_t all = lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
  for (Site* site : asked_[warp]) {
    (site->shared ? count_shared : count_global)(*report_, site->warps[warp], site->bytes, all);
    site->warps[warp].clear();
  }
  asked_[warp].clear();
}

void Checker::flush_all() {
  for (unsigned warp = 0; warp * 32 < threads_; ++warp) flush(warp);
}

void Checker::block_barrier() {
  flush_all();
  settle_doubts(true);
  races_.threads.block_barrier();
}

void Checker::warp_barrier(int warp, unsigned mask) {
  const auto number = static_cast<unsigned>(warp);
  const uint32_t lanes = std::min(threads_ - number * 32, 32U);
  const uint32_t all = lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
  if ((mask & all) == all) flush(number);
  races_.threads.warp_barrier(number, mask);
}

void Checker::divergent_barrier(std::string_view what) {
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  Site site;
  site.pc = last_pc_[thread];
  const Access access{0, 0, false, false, thread, &site};
  std::string details(what);
  if (site.pc != nullptr) details += ", its last access";
  report(FindingKind::divergent_barrier, &access, std::move(details));
}

}  // namespace emulator
