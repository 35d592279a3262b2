#include "engine/core/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "engine/core/dispatch.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

/// 0, 1, 2, ...
Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from_vector(shape, values);
}

using Floats = std::vector<float>;

TEST(Shape, ExtentsAndText) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 24);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.str(), "[2, 3, 4]");
  EXPECT_EQ(shape.with(-2, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_EQ((Shape{0, 3}).numel(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, RefusesWhatDoesNotFit) {
  ExpectError<Error>([] { Shape({-1}); }, {"[shape]", "got -1", "expected"});
  ExpectError<Error>([] { Shape({1, 1, 1, 1, 1, 1, 1}); }, {"[shape]", "got 7", "at most 6"});
  ExpectError<Error>([] { Shape({kLargest, 2}); }, {"[shape]", "exceeds"});
  ExpectError<Error>([] { Shape({1 << 30, 1 << 30, 1 << 30}); }, {"[shape]", "exceeds"});
  EXPECT_EQ((Shape{kLargest}).numel(), kLargest);
  ExpectError<Error>([] { (Shape{2, 3})[2]; }, {"[shape]", "got 2", "[2, 3]"});
  ExpectError<Error>([] { (Shape{2, 3})[-3]; }, {"[shape]", "got -3", "[2, 3]"});
  ExpectError<Error>([] { (Shape{2, 3}).with(2, 1); }, {"[shape]", "got 2"});
}

TEST(DTypes, SizesAndNames) {
  const std::pair<DType, std::pair<size_t, const char*>> all[] = {
      {DType::f64, {8, "f64"}}, {DType::f32, {4, "f32"}}, {DType::f16, {2, "f16"}}, {DType::bf16, {2, "bf16"}},
      {DType::i64, {8, "i64"}}, {DType::i32, {4, "i32"}}, {DType::u8, {1, "u8"}}};
  for (const auto& [dtype, expected] : all) {
    EXPECT_EQ(size_of(dtype), expected.first);
    EXPECT_STREQ(name_of(dtype), expected.second);
    EXPECT_EQ(is_floating(dtype), expected.second[0] == 'f' || expected.second[0] == 'b');
    dispatch_all(dtype, "test", [&, wanted = dtype]<typename T>() {
      EXPECT_EQ(dtype_of<T>, wanted);
      EXPECT_EQ(sizeof(T), size_of(wanted));
    });
  }
  ExpectError<Error>([] { dispatch_float(DType::i64, "some_op", []<typename T>() {}); },
                     {"[some_op]", "got i64", "expected f32 or f64"});
}

TEST(Tensor, MadeInEachWay) {
  constexpr Device kMissing{kernels::kBuiltWithCuda ? DeviceKind::emulated : DeviceKind::cuda, 0};
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor::zeros({2, 2}).to_vector<float>(), Floats(4, 0.0F));
  EXPECT_EQ(Tensor::full({3}, 1.5).to_vector<float>(), Floats(3, 1.5F));
  EXPECT_EQ(Tensor::full({2}, 7, DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(Tensor::full({2}, 2.5, DType::f64).to_vector<double>(), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(static_cast<float>(*Tensor::full({2}, 1.5, DType::f16).data<kernels::Half>()), 1.5F);
  const Tensor tensor = Tensor::from_vector<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.dtype(), DType::i32);
  EXPECT_EQ(tensor.bytes(), 24);
  EXPECT_EQ(tensor.device(), Device::cpu());
  EXPECT_EQ(Tensor::zeros({0, 3}).to_vector<float>(), Floats());
  ExpectError<Error>([] { Tensor::from_vector<float>({2}, {1, 2, 3}); }, {"[tensor]", "got 3", "[2]"});
  EXPECT_THROW(Tensor::empty({1}, DType::f32, MemoryCategory::data, kMissing), DeviceError);
}

TEST(Tensor, AccessChecksTheType) {
  const Tensor tensor = counting({2});
  ExpectError<Error>([&] { tensor.data<double>(); }, {"[tensor]", "got f64", "expected f32"});
  ExpectError<Error>([] { Tensor().data<float>(); }, {"[tensor]", "undefined"});
  ExpectError<Error>([] { Tensor().device(); }, {"[tensor]", "undefined"});
  ExpectError<Error>([&] { tensor.item(); }, {"[tensor]", "[2]"});
  EXPECT_EQ(Tensor::full({}, 4, DType::u8).item(), 4);
  EXPECT_EQ(Tensor::full({1, 1}, -2.5, DType::bf16).item(), -2.5);
}

TEST(Tensor, CopiesShareMemoryAndClonesDoNot) {
  const Tensor tensor = counting({2, 2}), copy = tensor, clone = tensor.clone();
  EXPECT_FALSE(tensor.owns_alone());
  EXPECT_TRUE(clone.owns_alone());
  copy.data<float>()[0] = 9;
  EXPECT_EQ(tensor.data<float>()[0], 9.0F);
  EXPECT_EQ(clone.data<float>()[0], 0.0F);
  EXPECT_TRUE(tensor.shares_memory_with(copy));
  EXPECT_FALSE(tensor.shares_memory_with(clone));
}

TEST(Tensor, ViewsShareMemory) {
  const Tensor tensor = counting({2, 3, 4});
  const Tensor flat = tensor.view({24}), part = tensor.narrow(1, 1, 2), row = tensor.select(0, 1),
               turned = tensor.transpose(0, 2);
  for (const Tensor& view : {flat, part, row, turned}) EXPECT_TRUE(view.shares_memory_with(tensor));
  tensor.data<float>()[12 + 4 + 2] = 100;  // at [1, 1, 2]
  EXPECT_EQ(flat.data<float>()[18], 100.0F);
  EXPECT_EQ(part.to_vector<float>()[8 + 2], 100.0F);
  EXPECT_EQ(row.to_vector<float>()[4 + 2], 100.0F);
  EXPECT_EQ(turned.to_vector<float>()[(2 * 3 + 1) * 2 + 1], 100.0F);
}

TEST(Tensor, ViewsHaveTheirElements) {
  const Tensor tensor = counting({2, 3, 2});
  EXPECT_EQ(tensor.narrow(0, 1, 1).to_vector<float>(), (Floats{6, 7, 8, 9, 10, 11}));
  EXPECT_TRUE(tensor.narrow(0, 1, 1).is_contiguous());
  EXPECT_EQ(tensor.narrow(1, 1, 2).to_vector<float>(), (Floats{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_FALSE(tensor.narrow(1, 1, 2).is_contiguous());
  EXPECT_EQ(tensor.narrow(-1, 0, 1).to_vector<float>(), (Floats{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(tensor.narrow(1, 3, 0).shape(), (Shape{2, 0, 2}));
  EXPECT_EQ(tensor.select(1, 2).to_vector<float>(), (Floats{4, 5, 10, 11}));
  EXPECT_EQ(tensor.select(1, 2).shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor.select(-1, 1).to_vector<float>(), (Floats{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(tensor.transpose(0, 1).shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(tensor.transpose(0, 1).to_vector<float>(), (Floats{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  EXPECT_EQ(tensor.transpose(-1, 1).to_vector<float>(), (Floats{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  EXPECT_EQ(tensor.transpose(1, 2).transpose(1, 2).to_vector<float>(), tensor.to_vector<float>());
  EXPECT_EQ(tensor.transpose(0, 2).narrow(0, 1, 1).select(1, 2).to_vector<float>(), (Floats{5, 11}));
}

TEST(Tensor, ContiguousCopiesOnlyWhereItMust) {
  const Tensor tensor = counting({2, 3});
  EXPECT_TRUE(tensor.contiguous().shares_memory_with(tensor));
  const Tensor turned = tensor.transpose(0, 1), copy = turned.contiguous();
  EXPECT_FALSE(copy.shares_memory_with(tensor));
  EXPECT_TRUE(copy.is_contiguous());
  EXPECT_EQ(copy.to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  // An axis of one element may have any stride.
  EXPECT_TRUE(tensor.narrow(0, 0, 1).transpose(0, 1).is_contiguous());
  const Tensor halves = Tensor::full({2, 2}, 2, DType::f16).transpose(0, 1).contiguous();
  EXPECT_EQ(static_cast<float>(halves.data<kernels::Half>()[3]), 2.0F);
}

TEST(Tensor, WhatViewsRefuse) {
  const Tensor tensor = counting({2, 3});
  ExpectError<Error>([&] { tensor.view({5}); }, {"[tensor] view", "[5]", "[2, 3]"});
  ExpectError<Error>([&] { tensor.transpose(0, 1).view({6}); }, {"[tensor] view", "contiguous"});
  for (const auto& [begin, length] : {std::pair<int64_t, int64_t>{-1, 1},
                                      {0, 4},
                                      {3, 1},
                                      {1, -1},
                                      {1, kLargest},
                                      {kLargest, 1},
                                      {kLargest, kLargest}}) {
    ExpectError<Error>([&, b = begin, l = length] { tensor.narrow(1, b, l); }, {"[tensor] narrow", "[2, 3]"});
  }
  ExpectError<Error>([&] { tensor.narrow(2, 0, 1); }, {"[shape]", "got 2"});
  ExpectError<Error>([&] { tensor.select(0, 2); }, {"[tensor]", "[2, 3]"});
  ExpectError<Error>([&] { tensor.transpose(0, 2); }, {"[tensor] transpose", "[2, 3]"});
  ExpectError<Error>([&] { tensor.transpose(-3, 0); }, {"[tensor] transpose", "[2, 3]"});
}

TEST(Tensor, CopyAndFillWriteInPlace) {
  const Tensor tensor = Tensor::zeros({2, 2}), source = counting({2, 2});
  tensor.copy_from(source);
  EXPECT_EQ(tensor.to_vector<float>(), source.to_vector<float>());
  tensor.narrow(0, 1, 1).fill(7);
  EXPECT_EQ(tensor.to_vector<float>(), (Floats{0, 1, 7, 7}));
  ExpectError<Error>([&] { tensor.copy_from(counting({4})); }, {"copy_from", "[4]", "[2, 2]"});
  ExpectError<Error>([&] { tensor.copy_from(Tensor::zeros({2, 2}, DType::f64)); }, {"copy_from", "f64", "f32"});
  ExpectError<Error>([&] { tensor.copy_from(source.transpose(0, 1)); }, {"copy_from", "contiguous"});
  ExpectError<Error>([&] { tensor.transpose(0, 1).fill(1); }, {"fill", "contiguous"});
}

TEST(Tensor, EmptyTensorsOfOddExtentsAreHarmless) {
  const Tensor tensor = Tensor::zeros({0, int64_t{1} << 62, 4});
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.clone().to_vector<float>(), Floats());
  EXPECT_EQ(tensor.view({0}).numel(), 0);
}

TEST(Tensor, MemoryGoesWithTheLastHandle) {
  const MemoryStats before = memory_stats();
  Tensor view;
  {
    const Tensor tensor = Tensor::zeros({1000});
    view = tensor.narrow(0, 10, 5);
  }
  EXPECT_GT(memory_stats().live_total, before.live_total);
  EXPECT_TRUE(view.owns_alone());
  view = Tensor();
  EXPECT_EQ(memory_stats().live_total, before.live_total);
}

}  // namespace
}  // namespace engine::testing
