#pragma once
// One collective operation as messages between processes.

#include <string>
#include <vector>

#include "engine/dist/mpi_link.h"

namespace engine {

/// Each rank owns a part of the buffer (Collective::parts). First every rank tells all others that it has come, and to
/// what. Then, piece by piece, ranks send their share of a part to its owner, the owner reduces the shares in the order
/// of ranks, and sends the result to the others. A reduce_scatter leaves out the last stage, an all_gather the first
/// two, a broadcast has shares of the root alone, and a barrier has arrivals only. Between as many ranks as a machine
/// room has, this moves as many bytes as a ring; it has no order of its own to depend on.
class Exchange {
 public:
  /// `number` counts the operations of the channel. `scratch` is memory to reuse; both must outlive the exchange.
  Exchange(MpiLink& link, const Collective& what, uint64_t number, std::vector<char>& scratch);

  /// Goes as far as messages allow now; whether it got any further. Throws engine::Error where another rank has come to
  /// another operation, and what check_mpi() throws.
  bool advance();
  bool complete() const { return open_ == 0; }
  bool all_arrived() const { return missing_ == 0; }
  /// The ranks that have not come, or, where all have, those whose messages are due.
  std::vector<int> awaited() const;

 private:
  enum class Kind { arrival_out, arrival_in, share_out, share_in, result_out, result_in };
  struct Message {
    Kind kind;
    int peer;
    int64_t piece;  // of the part that it belongs to
  };
  struct Arrival {
    uint64_t number = 0, parts = 0;
    int32_t kind = 0, dtype = 0, op = 0, root = 0;
    int64_t count = 0;
    char name[64] = {};
  };

  bool gives_shares(int rank) const;
  bool takes_results(int rank) const;
  int64_t pieces_of(int rank) const;
  kernels::Range piece_of(int rank, int64_t piece) const;
  char* own_data(int rank, int64_t piece) const;
  char* share_data(int rank, int64_t piece) const;
  int64_t piece_bytes(int rank, int64_t piece) const;

  void count_messages();
  void greet();
  void post(Kind kind, int peer, int64_t piece);
  void handle(const Message& message);
  void handle_arrival(int peer);
  void reduce_ready_pieces();
  void send_results(int peer);
  std::string describe(const Arrival& arrival) const;

  MpiLink& link_;
  const Collective& what_;
  std::vector<char>& scratch_;
  Arrival own_;
  std::vector<Arrival> arrivals_;
  std::vector<bool> arrived_;
  int missing_;
  int64_t piece_elements_ = 1, slot_bytes_ = 0;
  std::vector<int> shares_due_;        // of each piece of the own part
  int64_t ready_ = 0;                  // pieces of the own part that hold results
  std::vector<int64_t> results_sent_;  // by rank
  int64_t open_ = 0;                   // messages that are not complete
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // beside requests_
};

}  // namespace engine
