#include "kernels/emulator/checker.h"

#include <link.h>

#include <algorithm>
#include <memory>

#include "kernels/emulator/checker_state.h"
#include "kernels/emulator/emulator.h"
#include "kernels/emulator/host_guard.h"

namespace emulator {
namespace {

std::unique_ptr<Checker> active;

struct Image {
  uintptr_t of, begin = 0, end = 0;
};

/// Addresses of the program or library that holds Image::of.
int find_image(dl_phdr_info* info, size_t, void* data) {
  auto& image = *static_cast<Image*>(data);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    begin = std::min<uintptr_t>(begin, info->dlpi_addr + part.p_vaddr);
    end = std::max<uintptr_t>(end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  if (image.of < begin || image.of >= end) return 0;
  image.begin = begin;
  image.end = end;
  return 1;
}

std::string index_text(uint3 at) {
  if (at.y == 0 && at.z == 0) return std::to_string(at.x);
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

}  // namespace

const char* describe(FindingKind kind) {
  switch (kind) {
    case FindingKind::shared_race:
      return "race on shared memory";
    case FindingKind::global_race:
      return "race on global memory";
    case FindingKind::stream_race:
      return "race between stream operations";
    case FindingKind::unwritten_shared:
      return "read of shared memory that nobody wrote";
    case FindingKind::unwritten_global:
      return "read of memory that nobody wrote";
    case FindingKind::out_of_bounds:
      return "access outside of any allocation";
    case FindingKind::before_allocation:
      return "use before allocation in stream order";
    case FindingKind::after_free:
      return "use after free in stream order";
    case FindingKind::misaligned:
      return "misaligned access";
    case FindingKind::divergent_barrier:
      return "divergent barrier";
    case FindingKind::launch_shape:
      return "illegal launch shape";
    case FindingKind::host_memory:
      return "host memory in a kernel";
    case FindingKind::device_memory:
      return "device memory touched by the host";
    case FindingKind::pinned_reuse:
      return "pinned memory changed under a pending copy";
    case FindingKind::leak:
      return "memory never freed";
  }
  return "";
}

std::string Finding::text() const {
  std::string text = kernel + ": " + describe(kind) + ": ";
  if (in_thread) text += "block " + index_text(block) + " thread " + index_text(thread) + ": ";
  text += details;
  if (!place.empty()) text += " at " + place;
  return text;
}

Checker::Checker(const CheckerOptions& options) : options_(options) {
  Image image{reinterpret_cast<uintptr_t>(&threadIdx)};
  if (dl_iterate_phdr(find_image, &image) != 0) image_begin_ = image.begin, image_bytes_ = image.end - image.begin;
}

/// Whether the instruction has not been reported for this in the running kernel.
bool Checker::news(Site* site, FindingKind kind) {
  if (site == nullptr) return true;
  if (site->reported_in != kernel_) {
    site->reported_in = kernel_;
    site->reported = 0;
  }
  return (site->reported >> static_cast<unsigned>(kind) & 1) == 0;
}

Checker::Raw Checker::describe_finding(FindingKind kind, const Access* access, std::string details,
                                       const void* other_pc) const {
  Raw raw{{}, nullptr, other_pc};
  raw.finding.kind = kind;
  raw.finding.kernel = name_;
  raw.finding.details = std::move(details);
  if (access == nullptr || access->site == nullptr) return raw;
  const dim3 shape = block_shape_;
  const uint32_t thread = access->thread;
  raw.finding.in_thread = true;
  raw.finding.block = blockIdx;
  raw.finding.thread = {thread % shape.x, thread / shape.x % shape.y, thread / shape.x / shape.y};
  raw.pc = access->site->pc;
  return raw;
}

void Checker::keep(Raw raw) {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (raw_.size() < options_.most_findings) raw_.push_back(std::move(raw));
}

void Checker::report(FindingKind kind, const Access* access, std::string details, const void* other_pc) {
  Site* const site = access == nullptr ? nullptr : access->site;
  if (!news(site, kind)) return;
  if (site != nullptr) site->reported |= 1U << static_cast<unsigned>(kind);
  keep(describe_finding(kind, access, std::move(details), other_pc));
}

void Checker::note_host_touches() {
  for (const HostTouch& touch : take_host_touches()) {
    Raw raw{{}, nullptr, nullptr};
    raw.finding.kind = FindingKind::device_memory;
    raw.finding.kernel = "host code";
    raw.finding.details = touch.write ? "writes" : "reads";
    if (const auto allocation = find_allocation(touch.address)) {
      const auto offset = static_cast<const char*>(touch.address) - allocation->base;
      raw.finding.details += " at offset " + std::to_string(offset) + " of an allocation of " +
                             std::to_string(allocation->bytes) + " bytes on device " +
                             std::to_string(allocation->device);
    } else {
      raw.finding.details += " where no allocation is any more";
    }
    raw.finding.place = Places::get().of_stack(touch.frames);
    keep(std::move(raw));
  }
}

std::vector<Finding> Checker::findings() {
  note_host_touches();
  const std::lock_guard lock(mutex_);
  std::vector<Finding> findings;
  for (const Raw& raw : raw_) {
    Finding& finding = findings.emplace_back(raw.finding);
    if (raw.pc != nullptr) finding.place = Places::get().of(raw.pc);
    const size_t mark = finding.details.find('@');
    if (mark != std::string::npos) finding.details.replace(mark, 1, Places::get().of(raw.other_pc));
  }
  return findings;
}

size_t Checker::finding_count() {
  note_host_touches();
  const std::lock_guard lock(mutex_);
  return count_;
}

std::vector<Finding> Checker::leaks() {
  const std::lock_guard lock(mutex_);
  std::vector<Finding> found;
  memory_.each([&](const Memory& memory) {
    if (memory.death || memory.old) return;
    Finding& finding = found.emplace_back();
    finding.kind = FindingKind::leak;
    finding.kernel = memory.pinned() ? "cudaHostAlloc" : "cudaMalloc";
    finding.details = std::to_string(memory.allocation.bytes) + " bytes";
    if (!memory.pinned()) finding.details += " on device " + std::to_string(memory.allocation.device);
    if (!memory.uses.empty()) finding.details += ", last touched by " + memory.uses.back().name;
  });
  return found;
}

std::vector<KernelReport> Checker::reports() {
  const std::lock_guard lock(mutex_);
  std::vector<KernelReport> all;
  for (const auto& [name, report] : reports_) all.push_back(report);
  return all;
}

void enable_checker(const CheckerOptions& options) {
  disable_checker();
  active = std::make_unique<Checker>(options);
  for (const Allocation& allocation : live_allocations()) active->adopt(allocation);
  set_observer(active.get());
  start_host_guard();
}

void disable_checker() {
  if (active != nullptr) stop_host_guard();
  set_observer(nullptr);
  active.reset();
}

bool checker_enabled() { return active != nullptr; }
std::vector<Finding> findings() { return active == nullptr ? std::vector<Finding>() : active->findings(); }
size_t finding_count() { return active == nullptr ? 0 : active->finding_count(); }
std::vector<Finding> leaks() { return active == nullptr ? std::vector<Finding>() : active->leaks(); }
std::vector<KernelReport> kernel_reports() {
  return active == nullptr ? std::vector<KernelReport>() : active->reports();
}

}  // namespace emulator
