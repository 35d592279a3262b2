#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "engine/core/error.h"
#include "engine/dist/mpi_link.h"
#include "engine/dist/processes.h"
#include "engine/dist/progress_thread.h"

namespace engine {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr const char* kHint =
    "look for that process's own error first; --comm-timeout sets how long processes wait for each other";
constexpr Seconds kSlice{0.25};  // between looks at whether MPI still returns
constexpr Seconds kGrace{3};     // beyond the timeout, for the thread to find out by itself
constexpr Seconds kFarewell{2};  // for the last words to leave

[[noreturn]] void throw_failure(const std::string& text) { throw PeerError("processes: " + text, kHint); }

/// Waits, with the state's lock, until `ready`, or until MPI has not returned for longer than the timeout, which is a
/// failure. Time in which this process was suspended does not count.
template <typename Ready>
void wait_until(ProgressState& state, std::unique_lock<std::mutex>& lock, double timeout, Ready&& ready) {
  uint64_t turns = state.turns;
  Seconds still{0};
  auto before = std::chrono::steady_clock::now();
  while (!ready()) {
    state.changed.wait_for(lock, kSlice);
    const auto now = std::chrono::steady_clock::now();
    still = state.turns == turns && !state.ended ? still + std::min<Seconds>(now - before, 2 * kSlice) : Seconds{0};
    before = now;
    turns = state.turns;
    if (still < Seconds(timeout) + kGrace || ready()) continue;
    state.failure = "MPI does not return; another process may be lost";
    return;
  }
}

/// With the state's lock: has the others told why this process ends.
void give_up(ProgressState& state, const std::string& message) {
  if (state.failure || state.own_words || state.left) return;
  state.own_words = fmt::format("rank {} gives up: {}", state.place->rank, escaped(message));
  state.wake.notify_all();
}

class PendingWork final : public Request::Work {
 public:
  PendingWork(std::shared_ptr<ProgressState> state, std::shared_ptr<ProgressState::Pending> pending, double timeout)
      : state_(std::move(state)), pending_(std::move(pending)), timeout_(timeout) {}

  /// A request that is dropped must not leave its buffer in use. Where an error drops it, the others may not come.
  ~PendingWork() override {
    std::unique_lock lock(state_->mutex);
    if (!over() && std::uncaught_exceptions() > exceptions_) give_up(*state_, "an error ended it");
    wait_until(*state_, lock, timeout_, [&] { return over(); });
  }

  bool done() const override {
    const std::lock_guard lock(state_->mutex);
    return over();
  }

  void wait() override {
    std::unique_lock lock(state_->mutex);
    wait_until(*state_, lock, timeout_, [&] { return over(); });
    if (pending_->finished) return;
    // What another process says of itself names no operation.
    const std::string& text = *state_->failure;
    throw_failure(text.starts_with("rank ") ? describe(pending_->what) + ": " + text : text);
  }

 private:
  bool over() const { return pending_->finished || state_->failure; }

  std::shared_ptr<ProgressState> state_;
  std::shared_ptr<ProgressState::Pending> pending_;
  double timeout_;
  int exceptions_ = std::uncaught_exceptions();
};

class MpiWatch final : public Communicator::Watch {
 public:
  MpiWatch(std::shared_ptr<ProgressState> state, const std::string& name) : state_(std::move(state)) {
    const std::lock_guard lock(state_->mutex);
    ENGINE_CHECK(!state_->watching, "[communicator] watch: got {} during {}", name, state_->watched);
    state_->watched = name;
    state_->watching = true;
    ++state_->watches;
    state_->wake.notify_all();
  }
  ~MpiWatch() override {
    const std::lock_guard lock(state_->mutex);
    state_->watching = false;
  }

 private:
  std::shared_ptr<ProgressState> state_;
};

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(double timeout_seconds)
      : Communicator(timeout_seconds),
        state_(std::make_shared<ProgressState>()),
        thread_([state = state_, timeout_seconds] { carry_operations(state, timeout_seconds); }) {
    std::unique_lock lock(state_->mutex);
    wait_until(*state_, lock, timeout_seconds, [&] { return state_->place || state_->failure; });
    if (state_->place) {
      place_ = *state_->place;
      return;
    }
    const std::string text = *state_->failure;
    lock.unlock();
    end_thread();
    throw_failure(fmt::format("start: not all of them came within {:.0f} s: {}", timeout_seconds, text));
  }

  ~MpiCommunicator() override {
    if (!left()) fail(std::uncaught_exceptions() > 0 ? "an error ended it" : "it ended before the others");
    end_thread();
  }

  std::unique_ptr<Watch> watch(const std::string& name) override { return std::make_unique<MpiWatch>(state_, name); }

  void check() override {
    const std::lock_guard lock(state_->mutex);
    if (state_->failure) throw_failure(*state_->failure);
  }

  void fail(const std::string& message) override {
    const std::lock_guard lock(state_->mutex);
    give_up(*state_, message);
  }

  void close() override {
    if (left()) return;
    barrier("the end");
    std::unique_lock lock(state_->mutex);
    state_->leave = true;
    state_->wake.notify_all();
    wait_until(*state_, lock, timeout_seconds(), [&] { return state_->ended || state_->failure; });
    if (state_->failure) throw_failure("the end: " + *state_->failure);
  }

 protected:
  Request enqueue(Collective collective) override {
    auto pending = std::make_shared<ProgressState::Pending>();
    const auto channel = static_cast<size_t>(collective.channel);
    pending->what = std::move(collective);
    {
      const std::lock_guard lock(state_->mutex);
      ENGINE_CHECK(!state_->left, "[communicator] {}: after the end", describe(pending->what));
      if (!state_->failure) state_->queues[channel].push_back(pending);
      state_->wake.notify_all();
    }
    return Request(std::make_shared<PendingWork>(state_, std::move(pending), timeout_seconds()));
  }

 private:
  bool left() const {
    const std::lock_guard lock(state_->mutex);
    return state_->left;
  }

  /// Leaves the thread behind where MPI does not return.
  void end_thread() {
    std::unique_lock lock(state_->mutex);
    const bool ended = state_->changed.wait_for(lock, kFarewell, [&] { return state_->ended; });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else if (thread_.joinable()) {
      thread_.detach();
    }
  }

  std::shared_ptr<ProgressState> state_;
  std::thread thread_;
};

}  // namespace

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  return version.starts_with("Open MPI v") ? "Open MPI " + version.substr(std::string("Open MPI v").size()) : version;
}

std::unique_ptr<Communicator> connect_processes(double timeout_seconds) {
  if (launched_processes() == 1) return make_single_process();
  return std::make_unique<MpiCommunicator>(timeout_seconds);
}

}  // namespace engine
