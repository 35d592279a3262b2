#include "kernels/emulator/checker_memory.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr uintptr_t kNear = 4096;
constexpr uintptr_t kBehind = uintptr_t{64} << 20;  // the device's addresses go on behind the last allocation
constexpr size_t kMostGraves = 1000;

std::string offset_in(uintptr_t address, uintptr_t begin, size_t bytes) {
  const auto offset = static_cast<int64_t>(address - begin);
  return "offset " + std::to_string(offset) + " of an allocation of " + std::to_string(bytes) + " bytes";
}

}  // namespace

Memory& MemoryMap::add(const Allocation& allocation, Moment birth) {
  auto memory = std::make_unique<Memory>();
  memory->allocation = allocation;
  memory->birth = std::move(birth);
  memory->assume_written = memory->pinned();
  memory->shadow = Shadow(memory->begin(), allocation.bytes);
  const auto device = static_cast<size_t>(allocation.device + 1);
  if (devices_.size() <= device) devices_.resize(device + 1, {UINTPTR_MAX, 0});
  Range& range = devices_[device];
  range.begin = std::min(range.begin, memory->begin());
  range.end = std::max(range.end, memory->begin() + allocation.bytes);
  memories_.push_back(std::move(memory));
  return *memories_.back();
}

Memory* MemoryMap::find(uint64_t id) {
  for (auto& memory : memories_) {
    if (memory->allocation.id == id) return memory.get();
  }
  return nullptr;
}

Memory* MemoryMap::find_at(const void* base) {
  for (auto at = memories_.rbegin(); at != memories_.rend(); ++at) {
    if ((*at)->allocation.base == base) return at->get();
  }
  return nullptr;
}

void MemoryMap::enter(const Moment& running) {
  regions_.clear();
  for (auto& memory : memories_) {
    const bool alive = before(memory->birth, running) && (!memory->death || before(running, *memory->death));
    if (alive && !memory->given_back) regions_.push_back({memory->begin(), memory->allocation.bytes, memory.get()});
  }
  std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
  first_ = regions_.empty() ? 0 : regions_.front().begin;
  span_ = regions_.empty() ? 0 : regions_.back().begin + regions_.back().bytes - first_;
}

void MemoryMap::leave(const Moment& ran, std::string_view name) {
  for (const Region& region : regions_) {
    Memory& memory = *region.memory;
    if (!memory.touched) continue;
    memory.touched = memory.changed = false;
    const auto same = [&](const Use& use) { return use.stream == ran.stream; };
    auto use = std::find_if(memory.uses.begin(), memory.uses.end(), same);
    if (use == memory.uses.end()) use = memory.uses.insert(use, Use{ran.stream, 0, ""});
    use->number = ran.number;
    use->name = name;
  }
  regions_.clear();
  first_ = span_ = 0;
}

void MemoryMap::forget_dead(const StreamOrder& order) {
  std::erase_if(memories_, [&](const auto& memory) {
    if (!memory->death || !order.host_knows(*memory->death)) return false;
    graves_.push_back({memory->begin(), memory->allocation.bytes});
    if (graves_.size() > kMostGraves) graves_.pop_front();
    return true;
  });
}

const Region* MemoryMap::search(uintptr_t address) const {
  const auto next = std::upper_bound(regions_.begin(), regions_.end(), address,
                                     [](uintptr_t at, const Region& region) { return at < region.begin; });
  if (next == regions_.begin()) return nullptr;
  const Region& region = *std::prev(next);
  return address - region.begin < region.bytes ? &region : nullptr;
}

Miss MemoryMap::explain(uintptr_t address, const Moment& running) const {
  const Memory* holds = nullptr;
  for (const auto& memory : memories_) {
    if (address - memory->begin() >= memory->allocation.bytes) continue;
    if (holds == nullptr || before(memory->birth, running)) holds = memory.get();
  }
  if (holds != nullptr) {
    const bool unborn = !before(holds->birth, running);
    const std::string where = offset_in(address, holds->begin(), holds->allocation.bytes);
    return {unborn ? FindingKind::before_allocation : FindingKind::after_free, where, false};
  }
  const Region* nearest = nullptr;
  uintptr_t distance = kNear;
  for (const Region& region : regions_) {
    const uintptr_t apart = address < region.begin ? region.begin - address : address - region.begin - region.bytes;
    if (apart < distance) nearest = &region, distance = apart;
  }
  if (nearest != nullptr) {
    return {FindingKind::out_of_bounds, offset_in(address, nearest->begin, nearest->bytes), false};
  }
  for (auto grave = graves_.rbegin(); grave != graves_.rend(); ++grave) {
    if (address - grave->begin < grave->bytes) {
      return {FindingKind::after_free, offset_in(address, grave->begin, grave->bytes), false};
    }
  }
  if (address < kNear) return {FindingKind::out_of_bounds, "the null pointer", true};
  for (const Range& range : devices_) {
    if (address >= range.begin && address < range.end + kBehind) {
      return {FindingKind::out_of_bounds, "an address far from all allocations", true};
    }
  }
  return {FindingKind::host_memory, "", true};
}

}  // namespace emulator
