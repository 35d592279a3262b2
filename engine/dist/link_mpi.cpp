#include "engine/core/error.h"
#include "engine/dist/mpi_link.h"

namespace engine {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // MPI counts in int

int checked_bytes(int64_t bytes) {
  ENGINE_CHECK(bytes >= 0 && bytes <= kMostBytes, "[mpi] message: got {} bytes, expected at most {}", bytes,
               kMostBytes);
  return static_cast<int>(bytes);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(fmt::format("{}: {}", call, text));
}

MpiLink::MpiLink() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  ENGINE_CHECK(provided >= MPI_THREAD_FUNNELED, "[mpi] threads: got level {}, expected MPI_THREAD_FUNNELED", provided);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &place_.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &place_.size), "MPI_Comm_size");
  for (MPI_Comm& lane : lanes_) check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &lane), "MPI_Comm_dup");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place_.rank, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &place_.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &place_.local_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
}

void MpiLink::leave() {
  for (MPI_Comm& lane : lanes_) check_mpi(MPI_Comm_free(&lane), "MPI_Comm_free");
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

std::vector<char> MpiLink::gather_records(const void* own, int64_t bytes) {
  std::vector<char> all(static_cast<size_t>(bytes * size()));
  const int count = checked_bytes(bytes);
  check_mpi(MPI_Allgather(own, count, MPI_BYTE, all.data(), count, MPI_BYTE, lanes_[kControlLane]), "MPI_Allgather");
  return all;
}

MPI_Request MpiLink::send(int lane, const void* data, int64_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, checked_bytes(bytes), MPI_BYTE, peer, tag, lanes_[static_cast<size_t>(lane)], &request),
            "MPI_Isend");
  return request;
}

MPI_Request MpiLink::receive(int lane, void* data, int64_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, checked_bytes(bytes), MPI_BYTE, peer, tag, lanes_[static_cast<size_t>(lane)], &request),
            "MPI_Irecv");
  return request;
}

std::vector<int> MpiLink::finished(std::vector<MPI_Request>& requests) {
  std::vector<int> indices(requests.size());
  int count = 0;
  check_mpi(
      MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE),
      "MPI_Testsome");
  indices.resize(count == MPI_UNDEFINED ? 0 : static_cast<size_t>(count));
  return indices;
}

}  // namespace engine
