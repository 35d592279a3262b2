#pragma once
// What comes before what, as the program has asked for it, not as it happened to run: of operations on streams
// (StreamOrder, vector clocks as in Mattern: "Virtual Time and Global States of Distributed Systems", 1989) and of the
// threads of a running kernel (ThreadOrder).

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emulator {

/// Place of an operation: the number-th of its stream, after everything that `seen` counts, per stream.
struct Moment {
  uint32_t stream = 0, number = 0;
  std::vector<uint32_t> seen;
};

/// Whether a is over before b begins (or is b).
inline bool before(const Moment& a, const Moment& b) {
  return a.stream < b.seen.size() && b.seen[a.stream] >= a.number;
}

/// Streams are told by the runtime's numbers; stream 0 is the host, which does one thing at a time.
class StreamOrder {
 public:
  StreamOrder() { index(0); }

  /// The next moment of a stream. On the host's it is over when this returns.
  Moment next(uint64_t stream);
  void record(uint64_t event, uint64_t stream);
  void wait(uint64_t stream, uint64_t event);
  void host_waits_for_stream(uint64_t stream);
  void host_waits_for_event(uint64_t event);
  void host_waits_for_all();
  /// Whether the host has waited for it.
  bool host_knows(const Moment& moment) const;

 private:
  using Clock = std::vector<uint32_t>;
  static void join(Clock& into, const Clock& from);
  uint32_t index(uint64_t stream);
  /// Those that the host knows of order nothing any more: whatever is enqueued from now on is behind them.
  void forget_events();

  std::unordered_map<uint64_t, uint32_t> streams_;
  std::vector<Clock> clocks_;  // per stream
  std::unordered_map<uint64_t, Clock> events_;
  Clock host_;
};

/// Time inside of the running kernel. Phases count on through the process: operations, blocks and block barriers begin
/// new ones, so that a phase alone tells which of them an access belongs to. Blocks run one after another. Within a
/// phase each warp has a time of its own, which its barriers advance.
class ThreadOrder {
 public:
  uint32_t phase() const { return phase_; }
  uint32_t block_phase() const { return block_phase_; }
  uint32_t operation_phase() const { return operation_phase_; }
  uint32_t time(unsigned warp) const { return warps_[warp].time; }

  void begin_operation();
  /// Of so many threads.
  void begin_block(unsigned threads);
  void block_barrier();
  void warp_barrier(unsigned warp, uint32_t mask);
  /// Whether barriers of the warp put what these lanes did up to `time` of this phase before what `lane` does now.
  bool met(unsigned warp, unsigned lane, uint32_t lanes, uint32_t time) const;

 private:
  struct Warp {
    uint32_t time = 0, all_met = 0;  // every lane knows of every other's doings before all_met
    bool in_part = false;            // known is in use
    std::array<std::array<uint32_t, 32>, 32> known{};
  };
  void start_phase();

  uint32_t phase_ = 0, block_phase_ = 0, operation_phase_ = 0;
  unsigned threads_ = 0;
  std::array<Warp, 32> warps_;
};

}  // namespace emulator
