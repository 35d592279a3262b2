#pragma once
// Exponential moving average of weights. float and double; threaded.

#include <cstdint>

namespace engine::kernels {

/// average = decay * average + (1 - decay) * w, both [count]. No aliasing.
template <typename T>
void ema_update_cpu(double decay, const T* w, T* average, int64_t count);

}  // namespace engine::kernels
