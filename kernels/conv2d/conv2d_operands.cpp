#include "kernels/conv2d/conv2d_operands.h"

#include <stdexcept>

#include "kernels/conv2d/conv2d_fusion.h"

namespace engine::kernels {

void require_operands(const ConvPlanKey& key, const ConvBuffers& buffers) {
  ConvBuffers copy = buffers;
  visit_operands(key, copy, [&](const char* name, const auto& pointer, int64_t, bool) {
    if (pointer != nullptr) return;
    throw std::invalid_argument("[conv2d] " + std::string(name) + ": got null, expected memory for " + key.str());
  });
}

void require_plannable(const ConvPlanKey& key) {
  key.shape.require_valid();
  if (conv_fusion_valid(key.direction, key.fusion)) return;
  throw std::invalid_argument("[conv2d] fusion: got " + key.str() + ", expected one that its direction can have");
}

}  // namespace engine::kernels
