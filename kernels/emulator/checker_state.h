#pragma once
// The observer behind checker.h. Inside of the emulator only.

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/emulator/checker.h"
#include "kernels/emulator/checker_memory.h"
#include "kernels/emulator/checker_order.h"
#include "kernels/emulator/checker_places.h"
#include "kernels/emulator/checker_races.h"
#include "kernels/emulator/checker_sites.h"
#include "kernels/emulator/observer.h"

namespace emulator {

/// The runtime calls it with its lock held, and from one thread at a time while a kernel runs; the mutex is for what
/// the program asks meanwhile.
class Checker : public Observer {
 public:
  explicit Checker(const CheckerOptions& options);

  std::vector<Finding> findings();
  size_t finding_count();
  std::vector<Finding> leaks();
  std::vector<KernelReport> reports();
  /// Memory from before.
  void adopt(const Allocation& allocation);

  void enqueued(uint64_t stream, uint64_t operation) override;
  void will_run(uint64_t operation, const Operation& what) override;
  void event_recorded(uint64_t event, uint64_t stream) override;
  void stream_waits(uint64_t stream, uint64_t event) override;
  void host_waits_for_stream(uint64_t stream) override;
  void host_waits_for_event(uint64_t event) override;
  void host_waits_for_all() override;
  void allocated(const Allocation& allocation, uint64_t stream) override;
  void freed(const Allocation& allocation, uint64_t stream) override;
  void begin_operation(uint64_t operation, const Operation& what) override;
  void end_operation() override;
  void begin_block(uint3 block) override;
  void end_block() override;
  void access(const void* address, size_t bytes, bool write, bool atomic, const void* pc) override;
  void block_barrier() override;
  void warp_barrier(int warp, unsigned mask) override;
  void divergent_barrier(std::string_view what) override;
  void launch_refused(const Operation& what) override;

 private:
  struct Access {
    uintptr_t address;
    size_t bytes;
    bool write, atomic;
    uint32_t thread = 0;
    Site* site = nullptr;      // null: an operation that is no kernel
    Shadow* shadow = nullptr;  // of a read by a thread
  };
  /// A finding whose place is looked up when somebody asks; '@' in its details stands for that of the other access.
  struct Raw {
    Finding finding;
    const void* pc;
    const void* other_pc;
  };
  /// A thread read what nobody had written, which is a race and no more where another one writes it later.
  struct Doubt {
    Raw raw;
    Access access;
    uint32_t block;  // its first phase
  };
  struct Snapshot {
    Span span;
    size_t hash;
  };

  void note_host_touches();
  void settle();
  void check_snapshots(uint64_t operation);
  void forget_snapshots();
  void touch(const Span& span, bool write);
  void touch_region(const Region& region, uintptr_t begin, size_t bytes, bool write);
  void copy(const Span& from, const Span& to);
  void give(const Span& span, bool back);
  bool any_written(const Region& region, uintptr_t begin, size_t bytes);

  Shadow* shadow_of(const Access& access, bool& assume_written);
  Shadow* global_shadow(const Access& access, bool& assume_written);
  void outside(const Access& access);
  void misaligned(const Access& access);
  void check(const Access& access, Cell& cell, bool shared, bool assume_written);
  void flush(unsigned warp);
  void flush_all();

  void settle_doubts(bool shared);
  bool news(Site* site, FindingKind kind);
  Raw describe_finding(FindingKind kind, const Access* access, std::string details, const void* other_pc) const;
  void keep(Raw raw);
  void report(FindingKind kind, const Access* access, std::string details, const void* other_pc = nullptr);
  void report_race(const Access& access, const Visit& visit, bool shared);
  std::string thread_name(uint32_t thread) const;
  std::string block_name(uint32_t phase) const;
  /// First phase and indices of the block that a phase of the running operation belongs to; null before the first.
  const std::pair<uint32_t, uint3>* block_of(uint32_t phase) const;

  CheckerOptions options_;
  std::mutex mutex_;
  std::vector<Raw> raw_;
  size_t count_ = 0;

  StreamOrder order_;
  std::unordered_map<uint64_t, Moment> pending_;
  std::unordered_map<uint64_t, std::vector<Snapshot>> snapshots_;
  MemoryMap memory_;
  Races races_;
  Sites sites_;
  std::map<std::string, KernelReport, std::less<>> reports_;

  // The running operation and block.
  std::string name_;
  size_t kernel_ = 0;  // hash of the name
  uint64_t operation_ = 0;
  bool running_ = false, in_block_ = false;
  KernelReport* report_ = nullptr;
  dim3 block_shape_, grid_shape_;
  uint32_t threads_ = 0;
  std::vector<std::pair<uint32_t, uint3>> blocks_;  // by first phase
  std::array<std::vector<Site*>, 32> asked_;        // sites with requests, per warp
  std::vector<Doubt> doubts_;
  std::array<const void*, 1024> last_pc_{};
  Shadow shared_;
  uintptr_t shared_begin_ = 0;
  uintptr_t image_begin_ = 0, image_bytes_ = 0;  // the program's own variables
};

}  // namespace emulator
