#pragma once
// The thread that carries the operations of a process: it alone calls MPI, so that messages go on while other threads
// compute, and it looks after the other processes while it waits for them.

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/dist/communicator.h"

namespace engine {

/// What the threads of a process share with that thread. It may outlive the communicator, where MPI does not return.
struct ProgressState {
  struct Pending {
    Collective what;
    bool finished = false;
  };

  std::mutex mutex;
  std::condition_variable wake;     // for the thread
  std::condition_variable changed;  // for those who wait for it
  std::array<std::deque<std::shared_ptr<Pending>>, kChannels> queues;
  std::optional<ProcessPlace> place;     // once all processes are connected
  std::optional<std::string> own_words;  // why this process gives up, to be told to the others
  std::optional<std::string> failure;    // nothing is carried any more; buffers are not touched
  std::string watched;                   // what is waited for by other means; valid with watching
  bool watching = false;
  uint64_t watches = 0;
  bool leave = false, left = false;
  bool ended = false;              // the thread has
  std::atomic<uint64_t> turns{0};  // moves as long as MPI returns
};

/// The thread's body.
void carry_operations(const std::shared_ptr<ProgressState>& state, double timeout_seconds);

/// "all_reduce of gradients, bucket 3"
std::string describe(const Collective& collective);

}  // namespace engine
