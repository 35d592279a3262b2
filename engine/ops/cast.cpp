#include "engine/ops/cast.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/device_path.h"
#include "kernels/cast/cast.h"
#include "kernels/cast/cast_cuda.h"

namespace engine {
namespace {

template <typename From>
void cast_from(const Tensor& x, const Tensor& y) {
  dispatch_all(y.dtype(), "cast", [&]<typename To>() {
    if constexpr (std::is_integral_v<To> || std::is_same_v<From, int64_t> || std::is_same_v<From, int32_t>) {
      throw Error(
          fmt::format("[cast] x: got {} to {}, expected a floating type", name_of(x.dtype()), name_of(y.dtype())));
    } else {
      kernels::cast_cpu(x.data<From>(), y.data<To>(), x.numel());
    }
  });
}

Tensor converted(const Tensor& x, DType dtype) {
  Tensor y = x.new_empty(x.shape(), dtype);
  if (on_accelerator(x)) {
    dispatch_device(x.dtype(), "cast", [&]<typename From>() {
      dispatch_device(dtype, "cast", [&]<typename To>() {
        kernels::cast_cuda(x.data<From>(), y.data<To>(), x.numel(), stream_of(x));
      });
    });
    return y;
  }
  dispatch_all(x.dtype(), "cast", [&]<typename From>() { cast_from<From>(x, y); });
  return y;
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  ENGINE_CHECK(x.defined(), "[cast] x: got an undefined tensor, expected values");
  ENGINE_CHECK(x.is_contiguous(), "[cast] x: got strides with gaps, expected a contiguous tensor");
  ENGINE_CHECK(is_floating(dtype), "[cast] dtype: got {}, expected a floating type", name_of(dtype));
  ENGINE_CHECK(is_floating(x.dtype()) || x.dtype() == DType::u8, "[cast] x: got {}, expected u8 or a floating type",
               name_of(x.dtype()));
  if (x.dtype() == dtype) return x;
  Tensor y = converted(x, dtype);
  if (!should_record({&x})) return y;
  record("cast", {&x}, {&y}, [from = x.dtype()](Gradients& gradients) {
    gradients.set(0, converted(gradients.take_output(0).contiguous(), from));
  });
  return y;
}

}  // namespace engine
