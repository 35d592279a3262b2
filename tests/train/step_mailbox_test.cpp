#include "engine/train/step_mailbox.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "engine/core/tensor.h"
#include "tests/support/accelerator.h"

namespace engine::testing {
namespace {

using kernels::StepState;

class StepMailboxTest : public AcceleratorTest {};
class WatchedStepMailboxTest : public WatchedAcceleratorTest {};

// The host is two steps ahead throughout; a word is only there when the device is.
TEST_F(StepMailboxTest, EachStepHasItsOwnLetterAndAnswer) {
  const Device device = Device::accelerator();
  const Stream& stream = compute_stream(device);
  constexpr int64_t kSteps = 20, kFloats = sizeof(StepState) / sizeof(float);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const ScheduleScope order(seed);
    const Tensor state = Tensor::zeros({kFloats}, DType::f32, MemoryCategory::workspace, device);
    auto* in_device = reinterpret_cast<StepState*>(state.raw());
    const Tensor seen = Tensor::zeros({kSteps, kFloats}, DType::f32, MemoryCategory::workspace, device);
    const Tensor loss = state.narrow(0, offsetof(StepState, loss) / sizeof(float), 1);
    StepMailbox mailbox(stream, 3);
    std::vector<size_t> slots;
    for (int64_t step = 0; step < kSteps; ++step) {
      StepState letter;
      letter.lr = static_cast<float>(step + 1);
      letter.loss = -1;  // not the host's to send
      slots.push_back(mailbox.send(letter, in_device));
      seen.select(0, step).copy_from(state);
      loss.fill(static_cast<double>(100 + step));
      mailbox.fetch(slots.back(), in_device);
      if (step < 2) continue;
      const StepState answer = mailbox.read(slots[static_cast<size_t>(step - 2)]);
      EXPECT_EQ(answer.loss, static_cast<float>(100 + step - 2));
      EXPECT_EQ(answer.lr, static_cast<float>(step - 1));
    }
    const auto values = seen.to_vector<float>();
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto* found = reinterpret_cast<const StepState*>(values.data() + step * kFloats);
      EXPECT_EQ(found->lr, static_cast<float>(step + 1));
      EXPECT_EQ(found->loss, static_cast<float>(step == 0 ? 0 : 99 + step));
    }
  }
}

TEST_F(WatchedStepMailboxTest, MayGoWhileALetterIsOnItsWay) {
  const Device device = Device::accelerator();
  const Tensor state =
      Tensor::zeros({sizeof(StepState) / sizeof(float)}, DType::f32, MemoryCategory::workspace, device);
  std::optional<StepMailbox> mailbox(std::in_place, compute_stream(device), 3);
  mailbox->send({.lr = 7}, reinterpret_cast<StepState*>(state.raw()));
  mailbox.reset();
  EXPECT_EQ(state.to_vector<float>()[0], 7);
}

}  // namespace
}  // namespace engine::testing
