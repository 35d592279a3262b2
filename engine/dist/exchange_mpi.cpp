#include <algorithm>
#include <cstring>

#include "engine/core/error.h"
#include "engine/dist/exchange.h"
#include "engine/dist/hash.h"
#include "engine/dist/reduce.h"

namespace engine {
namespace {

// Large enough that a message costs little beside its bytes, small enough that sending, adding and sending on overlap.
constexpr int64_t kPieceBytes = 256 << 10;
constexpr int64_t kWindow = 4;         // pieces under way from one rank to another, so that they stay in caches
constexpr int64_t kMostPieces = 8192;  // of a part; every implementation of MPI has tags up to 32767
constexpr int kArrivalTag = 0, kShareTag = 1, kResultTag = kShareTag + kMostPieces;

}  // namespace

Exchange::Exchange(MpiLink& link, const Collective& what, uint64_t number, std::vector<char>& scratch)
    : link_(link), what_(what), scratch_(scratch), missing_(link.size() - 1) {
  const auto size = static_cast<size_t>(link.size());
  own_.number = number;
  own_.kind = static_cast<int32_t>(what.kind);
  own_.dtype = static_cast<int32_t>(what.buffer.dtype);
  own_.op = static_cast<int32_t>(what.op);
  own_.root = what.root;
  own_.count = what.buffer.count;
  what.name.copy(own_.name, sizeof own_.name - 1);
  int64_t largest = 0;
  Hash parts;
  for (int rank = 0; rank < link.size(); ++rank) {
    const kernels::Range part = what.parts.part(rank);
    largest = std::max(largest, part.end - part.begin);
    parts.add(&part.end, sizeof part.end);
  }
  own_.parts = parts.value();
  const auto element = static_cast<int64_t>(size_of(what.buffer.dtype));
  piece_elements_ = std::max(kPieceBytes / element, (largest + kMostPieces - 1) / kMostPieces);
  arrivals_.resize(size);
  arrived_.assign(size, false);
  results_sent_.assign(size, 0);
  count_messages();
  greet();
}

bool Exchange::gives_shares(int rank) const {
  switch (what_.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return true;
    case CollectiveKind::broadcast:
      return rank == what_.root;
    default:
      return false;
  }
}

bool Exchange::takes_results(int rank) const {
  switch (what_.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
      return true;
    case CollectiveKind::broadcast:
      return rank != what_.root;
    default:
      return false;
  }
}

int64_t Exchange::pieces_of(int rank) const {
  const kernels::Range part = what_.parts.part(rank);
  return (part.end - part.begin + piece_elements_ - 1) / piece_elements_;
}

kernels::Range Exchange::piece_of(int rank, int64_t piece) const {
  const kernels::Range part = what_.parts.part(rank);
  const int64_t begin = part.begin + piece * piece_elements_;
  return {begin, std::min(begin + piece_elements_, part.end)};
}

int64_t Exchange::piece_bytes(int rank, int64_t piece) const {
  const kernels::Range range = piece_of(rank, piece);
  return (range.end - range.begin) * static_cast<int64_t>(size_of(what_.buffer.dtype));
}

char* Exchange::own_data(int rank, int64_t piece) const {
  return static_cast<char*>(what_.buffer.data) +
         piece_of(rank, piece).begin * static_cast<int64_t>(size_of(what_.buffer.dtype));
}

/// Where another rank's share of the own part arrives: a broadcast's is the result.
char* Exchange::share_data(int rank, int64_t piece) const {
  if (what_.kind == CollectiveKind::broadcast) return own_data(link_.rank(), piece);
  return scratch_.data() + rank * slot_bytes_ +
         piece * piece_elements_ * static_cast<int64_t>(size_of(what_.buffer.dtype));
}

void Exchange::count_messages() {
  const int own = link_.rank();
  int givers = 0;
  open_ = 2 * missing_;
  for (int rank = 0; rank < link_.size(); ++rank) {
    if (rank == own) continue;
    givers += gives_shares(rank);
    open_ += (gives_shares(own) ? pieces_of(rank) : 0) + (gives_shares(rank) ? pieces_of(own) : 0);
    open_ += (takes_results(rank) ? pieces_of(own) : 0) + (takes_results(own) ? pieces_of(rank) : 0);
  }
  shares_due_.assign(static_cast<size_t>(pieces_of(own)), givers);
  if (givers == 0) ready_ = pieces_of(own);
  if (givers < 1 || what_.kind == CollectiveKind::broadcast) return;
  constexpr int64_t kLine = 64;
  const kernels::Range part = what_.parts.part(own);
  slot_bytes_ = (part.end - part.begin) * static_cast<int64_t>(size_of(what_.buffer.dtype));
  slot_bytes_ = (slot_bytes_ + kLine - 1) / kLine * kLine;
  const auto needed = static_cast<size_t>(slot_bytes_ * link_.size());
  if (scratch_.size() < needed) scratch_.resize(needed);
}

void Exchange::greet() {
  for (int peer = 0; peer < link_.size(); ++peer) {
    if (peer == link_.rank()) continue;
    post(Kind::arrival_in, peer, 0);
    post(Kind::arrival_out, peer, 0);
  }
}

void Exchange::post(Kind kind, int peer, int64_t piece) {
  const int lane = static_cast<int>(what_.channel), own = link_.rank(), at = static_cast<int>(piece);
  const auto arrival = static_cast<int64_t>(sizeof(Arrival));
  switch (kind) {
    case Kind::arrival_out:
      requests_.push_back(link_.send(lane, &own_, arrival, peer, kArrivalTag));
      break;
    case Kind::arrival_in:
      requests_.push_back(link_.receive(lane, &arrivals_[static_cast<size_t>(peer)], arrival, peer, kArrivalTag));
      break;
    case Kind::share_out:
      requests_.push_back(link_.send(lane, own_data(peer, piece), piece_bytes(peer, piece), peer, kShareTag + at));
      break;
    case Kind::share_in:
      requests_.push_back(link_.receive(lane, share_data(peer, piece), piece_bytes(own, piece), peer, kShareTag + at));
      break;
    case Kind::result_out:
      requests_.push_back(link_.send(lane, own_data(own, piece), piece_bytes(own, piece), peer, kResultTag + at));
      break;
    case Kind::result_in:
      requests_.push_back(link_.receive(lane, own_data(peer, piece), piece_bytes(peer, piece), peer, kResultTag + at));
      break;
  }
  messages_.push_back({kind, peer, piece});
}

bool Exchange::advance() {
  if (complete()) return false;
  std::vector<int> indices = link_.finished(requests_);
  if (indices.empty()) return false;
  std::vector<Message> done;
  std::sort(indices.begin(), indices.end());
  for (auto index = indices.rbegin(); index != indices.rend(); ++index) {
    const auto at = static_cast<size_t>(*index);
    done.push_back(messages_[at]);
    requests_[at] = requests_.back();
    messages_[at] = messages_.back();
    requests_.pop_back();
    messages_.pop_back();
  }
  open_ -= static_cast<int64_t>(done.size());
  for (const Message& message : done) handle(message);
  return true;
}

void Exchange::handle(const Message& message) {
  switch (message.kind) {
    case Kind::arrival_in:
      handle_arrival(message.peer);
      break;
    case Kind::share_out:
      // Only now may the result overwrite what was sent.
      if (takes_results(link_.rank())) post(Kind::result_in, message.peer, message.piece);
      if (message.piece + kWindow < pieces_of(message.peer)) {
        post(Kind::share_out, message.peer, message.piece + kWindow);
      }
      break;
    case Kind::share_in:
      if (message.piece + kWindow < pieces_of(link_.rank())) {
        post(Kind::share_in, message.peer, message.piece + kWindow);
      }
      --shares_due_[static_cast<size_t>(message.piece)];
      reduce_ready_pieces();
      break;
    default:
      break;
  }
}

void Exchange::handle_arrival(int peer) {
  const Arrival& theirs = arrivals_[static_cast<size_t>(peer)];
  const bool same = theirs.number == own_.number && theirs.kind == own_.kind && theirs.dtype == own_.dtype &&
                    theirs.op == own_.op && theirs.root == own_.root && theirs.count == own_.count &&
                    theirs.parts == own_.parts;
  if (!same) throw Error(fmt::format("rank {} has come to {}, this one to {}", peer, describe(theirs), describe(own_)));
  arrived_[static_cast<size_t>(peer)] = true;
  --missing_;
  const int own = link_.rank();
  if (gives_shares(peer)) {
    for (int64_t piece = 0; piece < std::min(kWindow, pieces_of(own)); ++piece) post(Kind::share_in, peer, piece);
  }
  if (gives_shares(own)) {
    for (int64_t piece = 0; piece < std::min(kWindow, pieces_of(peer)); ++piece) post(Kind::share_out, peer, piece);
  } else if (takes_results(own)) {
    for (int64_t piece = 0; piece < pieces_of(peer); ++piece) post(Kind::result_in, peer, piece);
  }
  send_results(peer);
}

void Exchange::reduce_ready_pieces() {
  const int own = link_.rank();
  const int64_t before = ready_;
  while (ready_ < pieces_of(own) && shares_due_[static_cast<size_t>(ready_)] == 0) {
    if (what_.kind != CollectiveKind::broadcast) {
      std::vector<const void*> shares;
      for (int rank = 0; rank < link_.size(); ++rank) {
        shares.push_back(rank == own ? own_data(own, ready_) : share_data(rank, ready_));
      }
      const kernels::Range range = piece_of(own, ready_);
      reduce_elements(what_.buffer.dtype, what_.op, shares, own_data(own, ready_), range.end - range.begin);
    }
    ++ready_;
  }
  if (ready_ == before) return;
  for (int peer = 0; peer < link_.size(); ++peer) {
    if (peer != own && arrived_[static_cast<size_t>(peer)]) send_results(peer);
  }
}

void Exchange::send_results(int peer) {
  if (!takes_results(peer)) return;
  int64_t& sent = results_sent_[static_cast<size_t>(peer)];
  for (; sent < ready_; ++sent) post(Kind::result_out, peer, sent);
}

std::vector<int> Exchange::awaited() const {
  std::vector<bool> due(arrived_.size());
  for (const Message& message : messages_) due[static_cast<size_t>(message.peer)] = true;
  std::vector<int> ranks;
  for (int rank = 0; rank < link_.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank != link_.rank() && (all_arrived() ? due[at] : !arrived_[at])) ranks.push_back(rank);
  }
  return ranks;
}

std::string Exchange::describe(const Arrival& arrival) const {
  return fmt::format("{} {} of {} ({} {}, {})", name_of(static_cast<CollectiveKind>(arrival.kind)), arrival.number,
                     std::string(arrival.name, strnlen(arrival.name, sizeof arrival.name)), arrival.count,
                     name_of(static_cast<DType>(arrival.dtype)), name_of(static_cast<ReduceOp>(arrival.op)));
}

}  // namespace engine
