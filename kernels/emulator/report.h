#pragma once
// What a kernel's accesses cost, counted from the accesses themselves: sectors, 16-byte share, bank conflicts, idle
// lanes. The counts follow NVIDIA's "CUDA C++ Best Practices Guide" (13.0), sections 10.2.1 (global memory is moved in
// sectors of 32 bytes) and 10.2.3 (32 banks of 4 bytes), and are those of Nsight Compute's memory tables, caches left
// out.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace emulator {

/// One kernel (all its template arguments) over a run. Bytes and sectors are of global memory.
struct KernelReport {
  std::string name;
  int64_t launches = 0;
  int64_t block = 0;          // threads; the most of any launch
  int64_t bytes_used = 0;     // that the threads asked for; once where lanes of a request ask for the same
  int64_t vector_bytes = 0;   // of those, by accesses of 16 bytes
  int64_t sectors = 0;        // of 32 bytes, that the requests touch
  int64_t requests = 0;       // to global and shared memory
  int64_t idle_requests = 0;  // in which a lane of the warp takes no part
  int bank_conflicts = 1;     // the most passes that a request to shared memory takes for each one that it has to
  std::optional<int64_t> header_bytes;  // that the launches promised (Operation::bytes), if all did

  /// bytes_used / (32 sectors); 1 where nothing was moved.
  double coalescing() const;
  double vector_share() const;
  /// Share of requests in which a lane takes no part, because it ended, was masked, or went another way. Lanes that the
  /// block's last warp lacks are no lanes; those behind the end of an array are.
  double divergence() const;
};

/// Requests of one warp by one instruction: the n-th execution by each lane since the lanes last met is the n-th
/// request.
class Requests {
 public:
  /// Whether these are the first since clear().
  bool add(unsigned lane, uint32_t address) {
    const uint32_t n = counts_[lane]++;
    const bool first = lanes_.empty();
    if (n == lanes_.size()) {
      lanes_.push_back(0);
      addresses_.emplace_back();
    }
    lanes_[n] |= 1U << lane;
    addresses_[n][lane] = address;
    return first;
  }
  void clear();

  /// Calls visit(lanes, addresses) for each; addresses are those of lanes in ascending order.
  template <typename Visit>
  void each(Visit visit) const {
    for (size_t n = 0; n < lanes_.size(); ++n) {
      std::array<uint32_t, 32> packed;
      unsigned count = 0;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        if ((lanes_[n] >> lane & 1) != 0) packed[count++] = addresses_[n][lane];
      }
      visit(lanes_[n], packed.data(), count);
    }
  }

 private:
  std::array<uint32_t, 32> counts_{};
  std::vector<uint32_t> lanes_;
  std::vector<std::array<uint32_t, 32>> addresses_;  // the low bits suffice
};

/// A request of `size` bytes per lane; warp_lanes are those that the warp has.
void count_global(KernelReport& report, const Requests& requests, uint32_t size, uint32_t warp_lanes);
void count_shared(KernelReport& report, const Requests& requests, uint32_t size, uint32_t warp_lanes);

}  // namespace emulator
