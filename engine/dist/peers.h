#pragma once
// Whether the other processes of a run are alive, and what they have to say about failures.

#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/dist/mpi_link.h"
#include "engine/dist/process_identity.h"

namespace engine {

/// How far a process has come: operations begun on each channel, and watches.
struct Progress {
  std::array<uint64_t, kChannels> operations{};
  uint64_t watches = 0;
};

/// Used by the thread that owns the link. A process answers questions as long as that thread of it runs; one on this
/// host that has ended is seen in the process table.
class Peers {
 public:
  using Clock = std::chrono::steady_clock;

  /// Blocks until all processes have come to it.
  Peers(MpiLink& link, double timeout_seconds);

  /// Takes messages in and answers them; `own` is what answers say. Returns what a process said when it gave up.
  std::optional<std::string> listen(const Progress& own);
  /// Asks processes for a sign of life, if none came or was asked for lately.
  void ask(std::span<const int> ranks);
  /// Time in which this process could not listen.
  void forgive(Clock::duration pause);
  /// Of these, one of this host that has ended; looks only so often.
  std::optional<int> find_ended(std::span<const int> ranks);

  /// "rank 1 (process 17 on host a) has ended without a word"
  std::string ended_text(int rank) const;
  /// Why ranks that were waited for did not come; `waited` seconds. `reached` tells from a process's progress whether
  /// it has come to what was waited for.
  template <typename Reached>
  std::string blame(std::span<const int> ranks, double waited, Reached&& reached) const {
    std::vector<int> silent, behind;
    for (const int rank : ranks) {
      if (is_silent(rank)) silent.push_back(rank);
      if (!reached(progress_[static_cast<size_t>(rank)])) behind.push_back(rank);
    }
    return blame_text(ranks, silent, behind, waited);
  }
  /// Tells all processes but those why this one gives up, and gives the messages some time to leave.
  void report(const std::string& text, std::span<const int> but);

 private:
  enum class Kind : int32_t { question, answer, failure };
  struct Message {
    Kind kind = Kind::question;
    Progress progress;
    char text[1024] = {};
  };
  struct Outgoing {
    Message message;
    MPI_Request request;
  };

  void receive_next();
  void send(Kind kind, int rank, const Progress& progress, const std::string& text);
  void drop_sent();
  bool is_silent(int rank) const;
  std::string named(int rank) const;
  std::string blame_text(std::span<const int> ranks, const std::vector<int>& silent, const std::vector<int>& behind,
                         double waited) const;

  MpiLink& link_;
  std::chrono::duration<double> timeout_, interval_;
  std::vector<ProcessIdentity> identities_;
  std::vector<bool> visible_;  // in the process table
  std::vector<Clock::time_point> heard_, asked_;
  std::vector<Progress> progress_;
  Clock::time_point looked_{};
  Message incoming_;
  std::vector<MPI_Request> receive_;  // one
  std::list<Outgoing> outgoing_;
};

}  // namespace engine
