#include "kernels/matmul/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/common/philox.h"
#include "kernels/common/vec.h"
#include "kernels/matmul/matmul.h"
#include "tests/support/tolerance.h"

namespace engine::kernels {
namespace {

using testing::ExpectClose;
using testing::OpClass;
using testing::tolerance;

constexpr float kUntouched = 1234.5F;

float value(uint64_t key, int64_t index) {
  return 2 * Philox::uniform(Philox::block(key, static_cast<uint64_t>(index), 0)[0]) - 1;
}

// a [rows, depth] and b [depth, columns] as plain matrices, and their product in double.
struct Matrices {
  Matrices(int64_t m, int64_t n, int64_t k) : rows(m), columns(n), depth(k) {
    for (int64_t i = 0; i < rows * depth; ++i) a.push_back(value(1, i));
    for (int64_t i = 0; i < depth * columns; ++i) b.push_back(value(2, i));
    product.resize(static_cast<size_t>(rows * columns));
    matmul_cpu(a.data(), b.data(), product.data(), {.m = rows, .n = columns, .k = depth});
  }
  int64_t rows, columns, depth;
  std::vector<double> a, b, product;

  std::vector<float> panels() const {
    std::vector<float> to(static_cast<size_t>(panels_of(columns) * panel_floats(depth)));
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < columns; ++j) {
        to[static_cast<size_t>(j / kPanel * panel_floats(depth) + p * kPanel + j % kPanel)] =
            static_cast<float>(b[static_cast<size_t>(p * columns + j)]);
      }
    }
    return to;
  }
};

const std::vector<Matrices>& sweep() {
  static const std::vector<Matrices> list = [] {
    std::vector<Matrices> made;
    for (const int64_t rows : {1, 5, 6, 7, 13, 64, 65, 100}) {
      for (const int64_t columns : {1, 15, 16, 17, 32, 48, 63, 64, 65, 130}) {
        for (const int64_t depth : {1, 3, 64}) made.emplace_back(rows, columns, depth);
      }
    }
    made.emplace_back(20, 70, kDepthBlock);
    return made;
  }();
  return list;
}

TEST(Gemm, RowsAgreeWithTheReference) {
  for (const Matrices& m : sweep()) {
    std::vector<float> a(static_cast<size_t>(m.rows * kRowStride), std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t p = 0; p < m.depth; ++p) {
        a[static_cast<size_t>(i * kRowStride + p)] = static_cast<float>(m.a[static_cast<size_t>(i * m.depth + p)]);
      }
    }
    const std::vector<float> b = m.panels();
    std::vector<float> bias(static_cast<size_t>(m.columns), 0.5F), got(static_cast<size_t>(m.rows * m.columns), 7.0F);
    std::vector<float*> c;
    for (int64_t i = 0; i < m.rows; ++i) c.push_back(got.data() + (m.rows - 1 - i) * m.columns);
    RowsProduct product{.a = a.data(),
                        .rows = m.rows,
                        .depth = m.depth,
                        .b = b.data(),
                        .b_stride = panel_floats(m.depth),
                        .columns = m.columns,
                        .c = c.data(),
                        .accumulate = false,
                        .bias = bias.data()};
    gemm_rows(product);
    product.accumulate = true;
    gemm_rows(product);
    std::vector<double> want;
    for (int64_t i = m.rows; i-- > 0;) {
      for (int64_t j = 0; j < m.columns; ++j)
        want.push_back(0.5 + 2 * m.product[static_cast<size_t>(i * m.columns + j)]);
    }
    ExpectClose(got, want, tolerance<float>(2 * m.depth, OpClass::matmul));
  }
}

TEST(Gemm, ColumnsAgreeWithTheReferenceAndTouchNothingElse) {
  for (const Matrices& m : sweep()) {
    const int64_t group = m.depth * kGroupStride, stride = m.columns + 3;
    std::vector<float> a(static_cast<size_t>(panels_of(m.rows) * group), std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t p = 0; p < m.depth; ++p) {
        a[static_cast<size_t>(i / kPanel * group + p * kGroupStride + i % kPanel)] =
            static_cast<float>(m.a[static_cast<size_t>(i * m.depth + p)]);
      }
    }
    const std::vector<float> b = m.panels();
    std::vector<float> c(static_cast<size_t>(m.rows * stride), kUntouched);
    ColumnsProduct product{.a = a.data(),
                           .a_stride = group,
                           .b = b.data(),
                           .b_stride = panel_floats(m.depth),
                           .rows = m.rows,
                           .columns = m.columns,
                           .depth = m.depth,
                           .c = c.data(),
                           .c_stride = stride,
                           .accumulate = false};
    gemm_columns(product);
    product.accumulate = true;
    gemm_columns(product);
    std::vector<float> got;
    std::vector<double> want;
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t j = 0; j < stride; ++j) {
        const float found = c[static_cast<size_t>(i * stride + j)];
        if (j >= m.columns) {
          EXPECT_EQ(found, kUntouched);
        } else {
          got.push_back(found);
          want.push_back(2 * m.product[static_cast<size_t>(i * m.columns + j)]);
        }
      }
    }
    ExpectClose(got, want, tolerance<float>(2 * m.depth, OpClass::matmul));
  }
}

TEST(Gemm, AProductWithoutDepthIsZero) {
  std::vector<float> c(static_cast<size_t>(kPanel + 5), kUntouched), b(1), a(1);
  float* row = c.data();
  gemm_rows({.a = a.data(),
             .rows = 1,
             .depth = 0,
             .b = b.data(),
             .b_stride = 0,
             .columns = kPanel + 5,
             .c = &row,
             .accumulate = false});
  EXPECT_EQ(c, std::vector<float>(c.size(), 0.0F));
}

TEST(Vec, TransposeExchangesRowsAndLanes) {
  Vector rows[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) rows[i][j] = static_cast<float>(100 * i + j);
  }
  transpose(rows);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) EXPECT_EQ(rows[i][j], static_cast<float>(100 * j + i));
  }
}

TEST(Vec, CopiesAndZeroesExactlyTheCount) {
  std::vector<float> from(100);
  std::iota(from.begin(), from.end(), 1.0F);
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> copied(100, kUntouched), zeroed(100, kUntouched);
    copy_floats(from.data(), copied.data() + 1, count);
    zero_floats(zeroed.data() + 1, count);
    for (int64_t i = 0; i < 100; ++i) {
      const bool within = i >= 1 && i <= count;
      EXPECT_EQ(copied[static_cast<size_t>(i)], within ? static_cast<float>(i) : kUntouched) << count;
      EXPECT_EQ(zeroed[static_cast<size_t>(i)], within ? 0.0F : kUntouched) << count;
    }
  }
}

}  // namespace
}  // namespace engine::kernels
