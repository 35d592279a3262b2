#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "engine/core/error.h"
#include "engine/dist/peers.h"

namespace engine {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kLookInterval{0.2};    // between looks into the process table
constexpr Seconds kReportPatience{0.5};  // for messages that tell of a failure to leave
// A process that does not answer for this share of the timeout is silent; questions are asked several times in it.
constexpr double kSilentShare = 0.5, kQuestionShare = 0.1, kLongestInterval = 2;
constexpr int kTag = 0;

}  // namespace

Peers::Peers(MpiLink& link, double timeout_seconds)
    : link_(link), timeout_(timeout_seconds), interval_(std::min(kLongestInterval, kQuestionShare * timeout_seconds)) {
  const auto size = static_cast<size_t>(link.size());
  const ProcessIdentity own = own_identity();
  const std::vector<char> all = link.gather_records(&own, sizeof own);
  identities_.resize(size);
  std::memcpy(identities_.data(), all.data(), all.size());
  for (const ProcessIdentity& identity : identities_) visible_.push_back(is_visible(identity));
  heard_.assign(size, Clock::now());
  asked_.assign(size, Clock::time_point{});
  progress_.resize(size);
  receive_next();
}

void Peers::receive_next() {
  receive_ = {link_.receive(kControlLane, &incoming_, sizeof incoming_, MPI_ANY_SOURCE, kTag)};
}

std::optional<std::string> Peers::listen(const Progress& own) {
  drop_sent();
  int done = 0;
  MPI_Status status;
  for (;;) {
    check_mpi(MPI_Test(receive_.data(), &done, &status), "MPI_Test");
    if (done == 0) return std::nullopt;
    const int rank = status.MPI_SOURCE;
    const auto at = static_cast<size_t>(rank);
    heard_[at] = Clock::now();
    progress_[at] = incoming_.progress;
    const Kind kind = incoming_.kind;
    const std::string text(incoming_.text, strnlen(incoming_.text, sizeof incoming_.text));
    receive_next();
    if (kind == Kind::question) send(Kind::answer, rank, own, "");
    if (kind == Kind::failure) return text;
  }
}

void Peers::send(Kind kind, int rank, const Progress& progress, const std::string& text) {
  Outgoing& outgoing = outgoing_.emplace_back();
  outgoing.message.kind = kind;
  outgoing.message.progress = progress;
  text.copy(outgoing.message.text, sizeof outgoing.message.text - 1);
  outgoing.request = link_.send(kControlLane, &outgoing.message, sizeof outgoing.message, rank, kTag);
}

void Peers::drop_sent() {
  outgoing_.remove_if([](Outgoing& outgoing) {
    int done = 0;
    check_mpi(MPI_Test(&outgoing.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

void Peers::ask(std::span<const int> ranks) {
  const auto now = Clock::now();
  for (const int rank : ranks) {
    const auto at = static_cast<size_t>(rank);
    if (now - std::max(heard_[at], asked_[at]) < interval_) continue;
    asked_[at] = now;
    send(Kind::question, rank, {}, "");
  }
}

void Peers::forgive(Clock::duration pause) {
  for (Clock::time_point& heard : heard_) heard += pause;
}

std::optional<int> Peers::find_ended(std::span<const int> ranks) {
  const auto now = Clock::now();
  if (now - looked_ < kLookInterval) return std::nullopt;
  looked_ = now;
  for (const int rank : ranks) {
    const auto at = static_cast<size_t>(rank);
    if (visible_[at] && has_ended(identities_[at])) return rank;
  }
  return std::nullopt;
}

bool Peers::is_silent(int rank) const {
  return Clock::now() - heard_[static_cast<size_t>(rank)] > kSilentShare * timeout_;
}

std::string Peers::named(int rank) const {
  const ProcessIdentity& identity = identities_[static_cast<size_t>(rank)];
  return fmt::format("rank {} (process {} on {})", rank, identity.id, escaped(identity.host));
}

std::string Peers::ended_text(int rank) const { return named(rank) + " has ended without a word"; }

std::string Peers::blame_text(std::span<const int> ranks, const std::vector<int>& silent,
                              const std::vector<int>& behind, double waited) const {
  const auto list = [&](std::span<const int> some) {
    std::vector<std::string> names;
    for (const int rank : some) names.push_back(named(rank));
    return fmt::format("{}", fmt::join(names, ", "));
  };
  if (!silent.empty()) return fmt::format("no sign of life from {} for {:.0f} s", list(silent), waited);
  if (!behind.empty()) return fmt::format("{} did not come to it within {:.0f} s, but lives", list(behind), waited);
  return fmt::format("nothing from {} for {:.0f} s", list(ranks), waited);
}

void Peers::report(const std::string& text, std::span<const int> but) {
  for (int rank = 0; rank < link_.size(); ++rank) {
    if (rank == link_.rank() || std::find(but.begin(), but.end(), rank) != but.end()) continue;
    send(Kind::failure, rank, {}, text);
  }
  const auto end = Clock::now() + kReportPatience;
  for (drop_sent(); !outgoing_.empty() && Clock::now() < end; drop_sent()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace engine
