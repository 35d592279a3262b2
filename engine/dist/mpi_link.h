#pragma once
// MPI as the engine uses it: messages between processes, none of which blocks. Made and used by one thread.

#include <mpi.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine/dist/communicator.h"

namespace engine {

/// Messages of one lane match messages of the same lane: one a channel, and one for signs of life.
inline constexpr int kControlLane = kChannels;

/// Throws engine::Error with MPI's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

class MpiLink {
 public:
  /// Enters MPI, with all processes of the run: blocks until they are there.
  MpiLink();
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;
  /// Leaves it, with all processes: blocks until they do. Without this the process ends without MPI's own end.
  void leave();

  const ProcessPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }

  /// Every process's record of so many bytes, by rank. Blocks.
  std::vector<char> gather_records(const void* own, int64_t bytes);
  MPI_Request send(int lane, const void* data, int64_t bytes, int peer, int tag);
  /// From any rank where `peer` is MPI_ANY_SOURCE.
  MPI_Request receive(int lane, void* data, int64_t bytes, int peer, int tag);
  /// Lets messages go on, and gives the indices of requests that are complete; those become MPI_REQUEST_NULL.
  std::vector<int> finished(std::vector<MPI_Request>& requests);

 private:
  ProcessPlace place_;
  std::array<MPI_Comm, kChannels + 1> lanes_{};
};

}  // namespace engine
