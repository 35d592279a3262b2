#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {
namespace {

// Rows are summed in parts of this many or more, and in this many parts at most: the parts depend on the rows alone.
constexpr int64_t kRowsInPart = 256;
constexpr int64_t kParts = 64;

template <typename T>
void add_bias(T* y, const T* bias, const LinearShape& shape) {
  if (bias == nullptr) return;
  for (int64_t row = 0; row < shape.batch; ++row) {
    for (int64_t column = 0; column < shape.out; ++column) y[row * shape.out + column] += bias[column];
  }
}

template <typename T>
void add_widened(const T* values, double* sums, int64_t count) {
  constexpr int64_t kPiece = 1024;
  std::array<float, kPiece> piece;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t width = std::min(kPiece, count - first);
    widen(values + first, piece.data(), width);
    for (int64_t i = 0; i < width; ++i) sums[first + i] += static_cast<double>(piece[static_cast<size_t>(i)]);
  }
}

}  // namespace

template <typename T>
void matmul_cpu(const T* a, const T* b, T* c, const MatmulShape& shape) {
  if (std::min({shape.m, shape.n, shape.k}) < 0) {
    throw std::invalid_argument("[matmul] extents: got " + std::to_string(shape.m) + ", " + std::to_string(shape.n) +
                                ", " + std::to_string(shape.k) + ", expected none negative");
  }
  const int64_t b_row = shape.transpose_b ? 1 : shape.n, b_column = shape.transpose_b ? shape.k : 1;
  parallel_for(shape.m, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(shape.n));
    for (int64_t i = begin; i < end; ++i) {
      T* out = c + i * shape.n;
      if (shape.accumulate) {
        std::copy(out, out + shape.n, sums.begin());
      } else {
        std::fill(sums.begin(), sums.end(), 0.0);
      }
      for (int64_t p = 0; p < shape.k; ++p) {
        const auto factor = static_cast<double>(shape.transpose_a ? a[p * shape.m + i] : a[i * shape.k + p]);
        for (int64_t j = 0; j < shape.n; ++j) {
          sums[static_cast<size_t>(j)] += factor * static_cast<double>(b[p * b_row + j * b_column]);
        }
      }
      std::copy(sums.begin(), sums.end(), out);
    }
  });
}

template <typename T>
void linear_forward_cpu(const T* x, const T* weight, const T* bias, T* y, const LinearShape& shape) {
  matmul_cpu(x, weight, y, {.m = shape.batch, .n = shape.out, .k = shape.in, .transpose_b = true});
  add_bias(y, bias, shape);
}

template <typename T>
void linear_backward_data_cpu(const T* grad_y, const T* weight, T* grad_x, const LinearShape& shape) {
  matmul_cpu(grad_y, weight, grad_x, {.m = shape.batch, .n = shape.in, .k = shape.out});
}

template <typename T>
void linear_backward_weights_cpu(const T* x, const T* grad_y, T* grad_weight, T* grad_bias, const LinearShape& shape) {
  matmul_cpu(grad_y, x, grad_weight, {.m = shape.out, .n = shape.in, .k = shape.batch, .transpose_a = true});
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.batch, shape.out);
}

template <typename T>
void column_sum(const T* x, T* sums, int64_t rows, int64_t columns) {
  const int64_t parts = std::clamp<int64_t>(rows / kRowsInPart, 1, kParts);
  std::vector<double> partial(static_cast<size_t>(parts * columns), 0.0);
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      double* sum = partial.data() + part * columns;
      const Range range = share_of(rows, part, parts);
      for (int64_t row = range.begin; row < range.end; ++row) {
        const T* values = x + row * columns;
        if constexpr (kNarrow<T>) {
          add_widened(values, sum, columns);
        } else {
          for (int64_t column = 0; column < columns; ++column) sum[column] += static_cast<double>(values[column]);
        }
      }
    }
  });
  for (int64_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[static_cast<size_t>(part * columns + column)];
    sums[column] = T(static_cast<Wide<T>>(sum));
  }
}

template void matmul_cpu(const float*, const float*, float*, const MatmulShape&);
template void matmul_cpu(const double*, const double*, double*, const MatmulShape&);
template void linear_forward_cpu(const float*, const float*, const float*, float*, const LinearShape&);
template void linear_forward_cpu(const double*, const double*, const double*, double*, const LinearShape&);
template void linear_backward_data_cpu(const float*, const float*, float*, const LinearShape&);
template void linear_backward_data_cpu(const double*, const double*, double*, const LinearShape&);
template void linear_backward_weights_cpu(const float*, const float*, float*, float*, const LinearShape&);
template void linear_backward_weights_cpu(const double*, const double*, double*, double*, const LinearShape&);
template void column_sum(const float*, float*, int64_t, int64_t);
template void column_sum(const double*, double*, int64_t, int64_t);
template void column_sum(const Half*, Half*, int64_t, int64_t);
template void column_sum(const BFloat16*, BFloat16*, int64_t, int64_t);

}  // namespace engine::kernels
