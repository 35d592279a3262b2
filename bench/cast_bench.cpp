// Parameters to and from the 16-bit types, and the bytes of a batch of pictures to float.

#include "bench/support/numbers.h"
#include "kernels/cast/cast.h"

namespace engine::bench {
namespace {

template <typename From, typename To>
bool register_cast(const char* name) {
  return register_memory_benchmark(name, kParameters * int64_t{sizeof(From) + sizeof(To)}, [] {
    return [x = Aligned<From>(kParameters), y = Aligned<To>(kParameters)]() mutable {
      kernels::cast_cpu(x.data(), y.data(), kParameters);
    };
  });
}

const bool kRegistered[] = {
    register_cast<float, kernels::BFloat16>("cast/float_to_bfloat16"),
    register_cast<kernels::BFloat16, float>("cast/bfloat16_to_float"),
    register_cast<float, kernels::Half>("cast/float_to_half"),
    register_cast<kernels::Half, float>("cast/half_to_float"),
    register_cast<uint8_t, float>("cast/byte_to_float"),
};

}  // namespace
}  // namespace engine::bench
