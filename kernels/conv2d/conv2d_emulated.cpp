#include <functional>
#include <vector>

#include "kernels/common/cuda_error.h"
#include "kernels/conv2d/conv2d_emulated_forms.h"
#include "kernels/conv2d/conv2d_fusion.h"
#include "kernels/conv2d/conv2d_operands.h"
#include "kernels/conv2d/conv2d_plan_store.h"

namespace engine::kernels {
namespace {

struct Kind {
  const char* name;
  void (*compute)(const ConvPlanKey&, const ConvBuffers&);
};

Kind kind_of(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::forward:
      return {"conv2d_forward", conv2d_forward_form};
    case ConvDirection::backward_data:
      return {"conv2d_backward_data", conv2d_backward_data_form};
    case ConvDirection::backward_weights:
      break;
  }
  return {"conv2d_backward_weights", conv2d_backward_weights_form};
}

class EmulatedPlan final : public ConvPlan {
 public:
  explicit EmulatedPlan(const ConvPlanKey& key) : key_(key), kind_(kind_of(key.direction)) {}
  int64_t workspace_bytes() const override { return 0; }
  std::string engine() const override { return "emulated"; }

  void run(const ConvBuffers& buffers, void*, cudaStream_t stream) const override {
    require_operands(key_, buffers);
    std::vector<emulator::Span> reads, writes;
    ConvBuffers copy = buffers;
    visit_operands(key_, copy, [&](const char*, const auto& pointer, int64_t bytes, bool written) {
      (written ? writes : reads).push_back({pointer, static_cast<size_t>(bytes)});
    });
    const auto body = [key = key_, kind = kind_, buffers] { kind.compute(key, buffers); };
    check_cuda(emulator::launch_library(kind_.name, stream, std::move(reads), std::move(writes), body), kind_.name);
  }

 private:
  ConvPlanKey key_;
  Kind kind_;
};

}  // namespace

const ConvPlan& conv2d_plan(int device, const ConvPlanKey& key, const ConvPlanOptions&) {
  static ConvPlanStore store;
  return store.get(device, key, [&] {
    require_plannable(key);
    return std::make_unique<EmulatedPlan>(key);
  });
}

}  // namespace engine::kernels
