#include "engine/train/memory_advice.h"

#include <algorithm>

#include "engine/core/memory_shortage.h"
#include "engine/ops/conv_forms.h"
#include "engine/ops/device_path.h"
#include "engine/profile/activation_memory.h"

namespace engine {
namespace {

constexpr int64_t kGapShare = 20;      // one in so many bytes is lost to gaps between blocks
constexpr int64_t kPictureCopies = 3;  // of a batch: two in transfer, one that is computed with
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kEven = 8;  // batches that kernels like are multiples of it

double mib(int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

int64_t live(const MemoryStats& stats, MemoryCategory category) { return stats.live[static_cast<size_t>(category)]; }

std::vector<LayerDescription> layers_of(const Module& model, const Shape& picture) {
  std::vector<LayerDescription> layers;
  model.describe("", picture, layers);
  return layers;
}

/// Bytes that a training step takes for one picture.
int64_t picture_bytes(const TrainedParts& parts, const Shape& picture) {
  const DType dtype = parts.parameters->compute_dtype();
  const int64_t activations =
      activation_bytes(layers_of(*parts.model, picture), picture, 1, element_type_of(dtype, "train"),
                       fusion_target(parts.parameters->device()));
  return activations + kPictureCopies * picture.numel() * kFloatBytes;
}

std::string largest_layer(const TrainedParts& parts, const Shape& batch, const Shape& picture) {
  const std::vector<LayerDescription> layers = layers_of(*parts.model, picture);
  const auto largest = std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
    return a.output_shape.numel() < b.output_shape.numel();
  });
  if (largest == layers.end()) return "";
  const int64_t bytes =
      batch[0] * largest->output_shape.numel() * static_cast<int64_t>(size_of(parts.parameters->compute_dtype()));
  return fmt::format("; largest layer: {} with {:.1f} MiB for a batch of {}", largest->name, mib(bytes), batch[0]);
}

std::string advice(const ShortageSite& site, const Shape& picture) {
  const int64_t asked = site.config.batch_size;
  int64_t fits = fitting_batch(site.parts, picture);
  if (fits > kEven) fits -= fits % kEven;
  const bool may_recompute = site.config.gradient_checkpointing == "none" && !site.parts.model->blocks().empty();
  const char* recompute = may_recompute ? ", or --gradient-checkpointing auto" : "";
  if (fits == 0) {
    return fmt::format(
        "not even one picture of {} x {} fits: use smaller pictures, a smaller --model, or a device "
        "with more memory free{}",
        picture[0], picture[1], recompute);
  }
  if (fits >= asked) {
    return fmt::format(
        "a batch of {} should fit by its activations: another program holds memory, or it is in pieces; "
        "free it, or use a smaller --batch-size",
        asked);
  }
  const int64_t micro_batches = (asked * site.config.accumulate_steps + fits - 1) / fits;
  return fmt::format(
      "use --batch-size {} (with --accumulate-steps {} for the same global batch), which should fit at "
      "{:.1f} MiB a picture{}",
      fits, micro_batches, mib(picture_bytes(site.parts, picture)), recompute);
}

}  // namespace

int64_t fitting_batch(const TrainedParts& parts, const Shape& picture) {
  const Device device = parts.parameters->device();
  const MemoryStats stats = memory_stats(device);
  int64_t room = usable_memory(device);
  room -= room / kGapShare;
  room -= live(stats, MemoryCategory::parameters) + live(stats, MemoryCategory::gradients) +
          live(stats, MemoryCategory::optimizer) + stats.peak[static_cast<size_t>(MemoryCategory::workspace)];
  return std::max<int64_t>(room, 0) / picture_bytes(parts, picture);
}

OutOfMemoryError explained(const OutOfMemoryError& error, const ShortageSite& site) {
  std::string message = error.what();
  message += site.fitted == 0 ? fmt::format("; at step {}, the first of this run", site.step)
                              : fmt::format("; at step {}, after {} that fitted", site.step, site.fitted);
  if (site.batch.rank() != 4) return OutOfMemoryError(message, error.hint());
  const Shape picture{site.batch[1], site.batch[2], site.batch[3]};
  return OutOfMemoryError(message + largest_layer(site.parts, site.batch, picture), advice(site, picture));
}

}  // namespace engine
