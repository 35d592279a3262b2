#include "engine/dist/progress_thread.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "engine/core/error.h"
#include "engine/dist/exchange.h"
#include "engine/dist/peers.h"

namespace engine {
namespace {

using Clock = Peers::Clock;
using Seconds = std::chrono::duration<double>;

// How the thread waits. Idle it only answers questions. While messages are due it looks again at once for some time, in
// turn with the threads that compute, and then less and less often: others may be late by much.
constexpr Seconds kIdle{0.01}, kEager{0.0005}, kShortNap{20e-6}, kLongNap{200e-6};
constexpr Seconds kPatience{0.1};  // before it looks after those it waits for

constexpr Seconds kPause{1};  // between two turns of the thread: it was stopped, or is not given the processor

double seconds_since(Clock::time_point then) { return Seconds(Clock::now() - then).count(); }

/// Its text is what the processes are told.
class Failure : public std::runtime_error {
 public:
  Failure(const std::string& text, std::vector<int> lost) : std::runtime_error(text), lost_(std::move(lost)) {}
  /// Those who need not be told.
  const std::vector<int>& lost() const { return lost_; }

 private:
  std::vector<int> lost_;
};

class Carrier {
 public:
  Carrier(ProgressState& state, double timeout) : state_(state), timeout_(timeout), peers_(link_, timeout) {
    for (int rank = 0; rank < link_.size(); ++rank) {
      if (rank != link_.rank()) others_.push_back(rank);
    }
    const std::lock_guard lock(state_.mutex);
    state_.place = link_.place();
    state_.changed.notify_all();
  }

  /// Until the process leaves; throws where something fails.
  void run() {
    while (!asked_to_leave()) {
      ++state_.turns;
      bool moved = false;
      for (size_t channel = 0; channel < lanes_.size(); ++channel) moved = advance(channel) || moved;
      hear();
      forgive_pause();
      look_after();
      if (!moved) rest();
    }
    link_.leave();
  }

  void tell(const std::string& text, std::span<const int> but) { peers_.report(text, but); }

 private:
  struct Lane {
    std::shared_ptr<ProgressState::Pending> pending;
    std::optional<Exchange> exchange;
    std::vector<char> scratch;
    Clock::time_point moved;
  };

  bool asked_to_leave() {
    const std::lock_guard lock(state_.mutex);
    if (state_.own_words) throw Failure(*state_.own_words, {});
    if (state_.watching && state_.watches != progress_.watches) watch_began_ = Clock::now();
    watching_ = state_.watching;
    progress_.watches = state_.watches;
    return state_.leave;
  }

  /// A run that was suspended as a whole goes on: time in which this thread did not run is nobody's fault.
  void forgive_pause() {
    const auto now = Clock::now(), before = std::exchange(turn_, now);
    if (now - before < kPause) return;
    for (Lane& lane : lanes_) lane.moved += now - before;
    watch_began_ += now - before;
    peers_.forgive(now - before);
  }

  bool begin(size_t channel) {
    Lane& lane = lanes_[channel];
    {
      const std::lock_guard lock(state_.mutex);
      auto& queue = state_.queues[channel];
      if (queue.empty()) return false;
      lane.pending = queue.front();
      queue.pop_front();
    }
    lane.moved = Clock::now();
    lane.exchange.emplace(link_, lane.pending->what, ++progress_.operations[channel], lane.scratch);
    return true;
  }

  bool advance(size_t channel) {
    Lane& lane = lanes_[channel];
    bool moved = !lane.exchange && begin(channel);
    if (!lane.exchange) return moved;
    moved = lane.exchange->advance() || moved;
    if (moved) lane.moved = Clock::now();
    if (!lane.exchange->complete()) return moved;
    lane.exchange.reset();
    const std::lock_guard lock(state_.mutex);
    lane.pending->finished = true;
    lane.pending.reset();
    state_.changed.notify_all();
    return true;
  }

  void hear() {
    if (const auto words = peers_.listen(progress_)) throw Failure(*words, others_);
  }

  void look_after() {
    for (size_t channel = 0; channel < lanes_.size(); ++channel) {
      const Lane& lane = lanes_[channel];
      if (!lane.exchange || seconds_since(lane.moved) < kPatience.count()) continue;
      const uint64_t number = progress_.operations[channel];
      look_after(lane.exchange->awaited(), seconds_since(lane.moved), describe(lane.pending->what),
                 [&](const Progress& theirs) { return theirs.operations[channel] >= number; });
    }
    if (watching_ && seconds_since(watch_began_) >= kPatience.count()) {
      look_after(others_, seconds_since(watch_began_), watched(),
                 [&](const Progress& theirs) { return theirs.watches >= progress_.watches; });
    }
  }

  template <typename Reached>
  void look_after(const std::vector<int>& awaited, double waited, const std::string& what, Reached&& reached) {
    peers_.ask(awaited);
    if (const auto ended = peers_.find_ended(awaited)) {
      hear();  // its last words may be there
      throw Failure(fmt::format("{}: {}", what, peers_.ended_text(*ended)), {*ended});
    }
    if (waited < timeout_) return;
    throw Failure(fmt::format("{}: {}", what, peers_.blame(awaited, waited, reached)), {});
  }

  std::string watched() {
    const std::lock_guard lock(state_.mutex);
    return state_.watched;
  }

  void rest() {
    bool active = watching_, eager = false;
    for (const Lane& lane : lanes_) {
      if (!lane.exchange) continue;
      active = true;
      eager = eager || seconds_since(lane.moved) < kEager.count();
    }
    if (eager) return std::this_thread::yield();
    std::unique_lock lock(state_.mutex);
    const bool work = std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
      return !lane.exchange && !state_.queues[static_cast<size_t>(&lane - lanes_.data())].empty();
    });
    if (work || state_.own_words || state_.leave) return;
    state_.wake.wait_for(lock, active ? nap() : kIdle);
  }

  Seconds nap() const {
    for (const Lane& lane : lanes_) {
      if (lane.exchange && lane.exchange->all_arrived()) return kShortNap;
    }
    return kLongNap;
  }

  ProgressState& state_;
  double timeout_;
  MpiLink link_;
  Peers peers_;
  std::vector<int> others_;
  std::array<Lane, kChannels> lanes_;
  Progress progress_;
  bool watching_ = false;
  Clock::time_point watch_began_, turn_ = Clock::now();
};

void finish(ProgressState& state, const std::optional<std::string>& failure) {
  const std::lock_guard lock(state.mutex);
  if (failure && !state.failure) state.failure = failure;
  state.left = !failure;
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace

std::string describe(const Collective& collective) {
  return fmt::format("{} of {}", name_of(collective.kind), collective.name);
}

void carry_operations(const std::shared_ptr<ProgressState>& state, double timeout_seconds) {
  std::optional<std::string> text;
  try {
    Carrier carrier(*state, timeout_seconds);
    try {
      carrier.run();
    } catch (const Failure& failure) {
      text = failure.what();
      carrier.tell(*text, failure.lost());
    } catch (const std::exception& error) {
      text = fmt::format("rank {}: {}", state->place->rank, error.what());
      carrier.tell(*text, {});
    }
  } catch (const std::exception& error) {
    text = text.value_or(error.what());
  }
  finish(*state, text);
}

}  // namespace engine
