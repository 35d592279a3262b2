// Keeping the running statistics of ResNet-50 and putting them back.

#include <vector>

#include "bench/support/device.h"
#include "kernels/select/select_cuda.h"

namespace engine::bench {
namespace {

using kernels::KeptBuffer;

constexpr int64_t kBytes = int64_t{53120} * 4;  // means and variances of 53 batch norms

struct Kept {
  DeviceMemory live = device_memory(kBytes), kept = device_memory(kBytes), state = device_memory(256), table;
  int parts = 0;

  Kept() {
    const KeptBuffer buffer{live->as<void>(), kept->as<void>(), kBytes};
    const std::vector<KeptBuffer> cut = kernels::kept_parts(std::span(&buffer, 1));
    parts = static_cast<int>(cut.size());
    table = device_copy_of(cut);
  }
};

const bool kKeep = register_device_benchmark("select_keep/cuda_f32", [] {
  return DeviceWork{.enqueue =
                        [kept = std::make_shared<Kept>()](cudaStream_t stream) {
                          kernels::keep_cuda(kept->table->as<KeptBuffer>(), kept->parts, kBytes, stream);
                        },
                    .bytes = 2 * kBytes};
});

// The state is zeros: not applied, so that everything is copied.
const bool kRestore = register_device_benchmark("select_restore/cuda_f32", [] {
  return DeviceWork{.enqueue =
                        [kept = std::make_shared<Kept>()](cudaStream_t stream) {
                          kernels::restore_if_skipped_cuda(kept->state->as<kernels::StepState>(),
                                                           kept->table->as<KeptBuffer>(), kept->parts, kBytes, stream);
                        },
                    .bytes = 2 * kBytes};
});

}  // namespace
}  // namespace engine::bench
