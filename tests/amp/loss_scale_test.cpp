#include "kernels/common/loss_scale.h"

#include <gtest/gtest.h>

#include "engine/amp/precision.h"

namespace engine::testing {
namespace {

using kernels::advanced;
using kernels::LossScale;

LossScale after(LossScale state, int steps, bool applied, bool dynamic = true) {
  for (int i = 0; i < steps; ++i) state = advanced(state, applied, dynamic);
  return state;
}

TEST(LossScale, TruthTable) {
  const LossScale start{.scale = kernels::kInitialLossScale};
  // Halved at once, doubled after 2000 good steps and not one earlier.
  EXPECT_EQ(after(start, 1, false).scale, 32768);
  EXPECT_EQ(after(start, 1999, true).scale, 65536);
  EXPECT_EQ(after(start, 2000, true).scale, 131072);
  EXPECT_EQ(after(start, 2000, true).good_steps, 0);
  EXPECT_EQ(after(start, 4000, true).scale, 262144);
  // A bad step begins the count anew.
  const LossScale broken = after(after(after(start, 1999, true), 1, false), 1999, true);
  EXPECT_EQ(broken.scale, 32768);
  EXPECT_EQ(advanced(broken, true, true).scale, 65536);
  EXPECT_EQ(broken.skipped, 1);
  EXPECT_EQ(broken.skipped_in_a_row, 0);
  // A given factor stays.
  const LossScale fixed = after(after({.scale = 128}, 5, false, false), 5000, true, false);
  EXPECT_EQ(fixed.scale, 128);
  EXPECT_EQ(fixed.skipped, 5);
}

TEST(Cases, H_NUM_03_TheScaleStaysInItsRange) {
  LossScale state{.scale = 65536};
  for (int i = 0; i < 200; ++i) {
    state = advanced(state, false, true);
    EXPECT_GE(state.scale, kernels::kLeastLossScale);
  }
  EXPECT_EQ(state.scale, kernels::kLeastLossScale);
  EXPECT_EQ(state.skipped, 200);
  EXPECT_EQ(state.skipped_in_a_row, 200);
  EXPECT_GT(state.skipped_in_a_row, kernels::kMostSkipsInARow);
  for (int i = 0; i < 100000; ++i) {
    state = advanced(state, true, true);
    EXPECT_LE(state.scale, kernels::kMostLossScale);
  }
  EXPECT_EQ(state.scale, kernels::kMostLossScale);
}

TEST(Precision, NamesAndTypes) {
  for (const std::string& name : precision_names()) {
    ASSERT_TRUE(precision_of(name).has_value()) << name;
    EXPECT_EQ(name_of(*precision_of(name)), name);
  }
  EXPECT_FALSE(precision_of("fp8").has_value());
  EXPECT_EQ(compute_dtype_of(Precision::tf32), DType::f32);
  EXPECT_EQ(compute_dtype_of(Precision::bf16), DType::bf16);
  EXPECT_EQ(compute_dtype_of(Precision::fp16), DType::f16);
  EXPECT_TRUE(scales_loss(Precision::fp16));
  EXPECT_FALSE(scales_loss(Precision::bf16));
}

}  // namespace
}  // namespace engine::testing
