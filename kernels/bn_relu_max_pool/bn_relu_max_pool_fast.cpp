#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/max_pool2d/rows.h"

namespace engine::kernels {
namespace {

// A thread's rows of floats stand behind batch norm's workspace: the picture's, as many as a window has, and one for
// the output where that is not made of floats itself.
int64_t row_floats(const Pool2dShape& s) { return (std::max(s.w, s.out_w()) * s.c + 15) / 16 * 16; }

float* picture_rows(std::byte* workspace, const Pool2dShape& s, int64_t part) {
  std::byte* behind = workspace + (batch_norm_workspace_bytes(s.c) + 63) / 64 * 64;
  return reinterpret_cast<float*>(behind) + part * (s.kernel_h + 1) * row_floats(s);
}

template <typename T>
BatchNormForward<T> batch_norm_of(const BnReluMaxPoolForward<T>& args) {
  return {.rows = args.shape.n * args.shape.h * args.shape.w,
          .channels = args.shape.c,
          .eps = args.eps,
          .momentum = args.momentum,
          .x = args.x,
          .gamma = args.gamma,
          .beta = args.beta,
          .running_mean = args.running_mean,
          .running_var = args.running_var,
          .saved_mean = args.saved_mean,
          .saved_invstd = args.saved_invstd};
}

template <typename T>
BatchNormBackward<T> batch_norm_of(const BnReluMaxPoolBackward<T>& args) {
  return {.rows = args.shape.n * args.shape.h * args.shape.w,
          .channels = args.shape.c,
          .gamma = args.gamma,
          .grad_gamma = args.grad_gamma,
          .grad_beta = args.grad_beta};
}

template <typename T>
void normalise_row(const BnReluMaxPoolForward<T>& args, const float* scale, const T* x, float* z) {
  const int64_t c = args.shape.c;
  const float *mean = args.saved_mean, *beta = args.beta;
  for (int64_t w = 0; w < args.shape.w; ++w) {
    for_each_vector(c, [=]<typename V>(int64_t i) {
      const V value = load_as<V>(x + w * c + i);
      store_as(z + w * c + i, normalise(value, load_as<V>(mean + i), load_as<V>(scale + i), load_as<V>(beta + i)));
    });
  }
}

void rectify_row(float* y, uint8_t* index, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    index[i] = y[i] <= 0 ? kNoWinner : index[i];
    y[i] = rectify(y[i]);
  }
}

// Output rows [begin, end) of all pictures. A row of the picture is normalised once for all windows that it is under.
template <typename T>
void pool_rows(const BnReluMaxPoolForward<T>& args, const float* scale, float* memory, Range outputs) {
  const Pool2dShape& s = args.shape;
  const int64_t out_h = s.out_h(), out_row = s.out_w() * s.c;
  int64_t next = 0;  // rows of all pictures below this one are done
  for (int64_t out = outputs.begin; out < outputs.end; ++out) {
    const int64_t picture = out / out_h * s.h, first = out % out_h * s.stride_h - s.pad_h;
    WindowRows rows;
    for (int64_t r = 0; r < s.kernel_h; ++r) {
      const int64_t h = first + r;
      if (h < 0 || h >= s.h) {
        rows[static_cast<size_t>(r)] = nullptr;
        continue;
      }
      float* z = memory + h % s.kernel_h * row_floats(s);
      if (picture + h >= next) {
        normalise_row(args, scale, args.x + (picture + h) * s.w * s.c, z);
        next = picture + h + 1;
      }
      rows[static_cast<size_t>(r)] = z;
    }
    T* target = args.y + out * out_row;
    float* y = nullptr;
    if constexpr (kNarrow<T>) {
      y = memory + s.kernel_h * row_floats(s);
    } else {
      y = target;
    }
    max_pool_row(s, rows, y, args.index + out * out_row);
    rectify_row(y, args.index + out * out_row, out_row);
    if constexpr (kNarrow<T>) narrow(y, target, out_row);
  }
}

// sum += g and dot += g * (x - mean) over picture rows, g the gradient of the normalised tensor.
template <typename T>
void reduce_rows(const BnReluMaxPoolBackward<T>& args, const BatchNormWorkspace& workspace, int64_t part, Range rows) {
  const Pool2dShape& s = args.shape;
  const int64_t c = s.c;
  double *sum = workspace.sums(part, 0), *dot = workspace.sums(part, 1);
  float *row_sum = workspace.scratch(part, 0), *row_dot = workspace.scratch(part, 1);
  float* g = picture_rows(args.workspace, s, part);
  const float* mean = args.mean;
  std::fill_n(sum, c, 0.0);
  std::fill_n(dot, c, 0.0);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    max_unpool_row(s, row / s.h, row % s.h, args.grad_y, args.index, g);
    const T* x = args.x + row * s.w * c;
    std::fill_n(row_sum, c, 0.0F);
    std::fill_n(row_dot, c, 0.0F);
    for (int64_t w = 0; w < s.w; ++w) {
      for_each_vector(c, [=]<typename V>(int64_t i) {
        const V gradient = load_as<V>(g + w * c + i), value = load_as<V>(x + w * c + i);
        store_as(row_sum + i, load_as<V>(row_sum + i) + gradient);
        store_as(row_dot + i, load_as<V>(row_dot + i) + gradient * (value - load_as<V>(mean + i)));
      });
    }
#pragma omp simd
    for (int64_t i = 0; i < c; ++i) {
      sum[i] += row_sum[i];
      dot[i] += row_dot[i];
    }
  }
}

template <typename T>
void apply_rows(const BnReluMaxPoolBackward<T>& args, const BatchNormCoefficients& given, float* g, Range rows) {
  const Pool2dShape& s = args.shape;
  const BatchNormCoefficients k = given;
  const int64_t c = s.c;
  // Backwards, because the pass before has left the last rows in the cache.
  for (int64_t row = rows.end - 1; row >= rows.begin; --row) {
    max_unpool_row(s, row / s.h, row % s.h, args.grad_y, args.index, g);
    const T* x = args.x + row * s.w * c;
    T* grad_x = args.grad_x + row * s.w * c;
    for (int64_t w = 0; w < s.w; ++w) {
      for_each_vector(c, [=]<typename V>(int64_t i) {
        const int64_t at = w * c + i;
        const V centred = load_as<V>(x + at) - load_as<V>(k.mean + i);
        store_as(grad_x + at, load_as<V>(g + at) * load_as<V>(k.scale + i) +
                                  (centred * load_as<V>(k.slope + i) + load_as<V>(k.offset + i)));
      });
    }
  }
}

}  // namespace

int64_t bn_relu_max_pool_workspace_bytes(const Pool2dShape& shape) {
  const int64_t rows = max_threads() * (shape.kernel_h + 1) * row_floats(shape);
  return (batch_norm_workspace_bytes(shape.c) + 63) / 64 * 64 + rows * static_cast<int64_t>(sizeof(float));
}

template <typename T>
void bn_relu_max_pool_forward_fast(const BnReluMaxPoolForward<T>& args) {
  const Pool2dShape& s = args.shape;
  const BatchNormForward<T> norm = batch_norm_of(args);
  const BatchNormWorkspace workspace(args.workspace, norm.rows, norm.channels);
  float* scale = workspace.shared(0);
  save_batch_statistics(norm, workspace, scale);
  workspace.for_each_part([&](int64_t part, Range) {
    pool_rows(args, scale, picture_rows(args.workspace, s, part), share_of(s.n * s.out_h(), part, workspace.parts()));
  });
}

template <typename T>
void bn_relu_max_pool_backward_fast(const BnReluMaxPoolBackward<T>& args) {
  const Pool2dShape& s = args.shape;
  const BatchNormBackward<T> norm = batch_norm_of(args);
  const BatchNormWorkspace workspace(args.workspace, norm.rows, norm.channels);
  const BatchNormCoefficients k{args.mean, workspace.shared(0), workspace.shared(1), workspace.shared(2)};
  for (int64_t i = 0; i < s.c; ++i) k.scale[i] = args.gamma[i] * args.invstd[i];
  const auto rows_of = [&](int64_t part) { return share_of(s.n * s.h, part, workspace.parts()); };
  workspace.for_each_part([&](int64_t part, Range) { reduce_rows(args, workspace, part, rows_of(part)); });
  finish_sums(norm, workspace, args.invstd, k);
  if (args.grad_x == nullptr) return;
  workspace.for_each_part(
      [&](int64_t part, Range) { apply_rows(args, k, picture_rows(args.workspace, s, part), rows_of(part)); });
}

template void bn_relu_max_pool_forward_fast(const BnReluMaxPoolForward<float>&);
template void bn_relu_max_pool_forward_fast(const BnReluMaxPoolForward<Half>&);
template void bn_relu_max_pool_forward_fast(const BnReluMaxPoolForward<BFloat16>&);
template void bn_relu_max_pool_backward_fast(const BnReluMaxPoolBackward<float>&);
template void bn_relu_max_pool_backward_fast(const BnReluMaxPoolBackward<Half>&);
template void bn_relu_max_pool_backward_fast(const BnReluMaxPoolBackward<BFloat16>&);

}  // namespace engine::kernels
