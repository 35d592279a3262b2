#include "engine/nn/init.h"

#include <cmath>

#include "engine/core/error.h"
#include "engine/core/random.h"

namespace engine {

void init_he_normal_fan_out(const Tensor& filter, uint64_t seed, std::string_view name) {
  ENGINE_CHECK(filter.rank() == 4, "[init] {}: got {}, expected a filter", name, filter.shape().str());
  const double fan_out = static_cast<double>(filter.dim(0) * filter.dim(1) * filter.dim(2));
  const auto deviation = static_cast<float>(std::sqrt(2 / fan_out));
  RandomStream random(seed, RandomPurpose::init, hash_of(name));
  auto* values = filter.data<float>();
  for (int64_t i = 0; i < filter.numel(); ++i) values[i] = deviation * random.normal();
}

void init_uniform_fan_in(const Tensor& tensor, int64_t fan_in, uint64_t seed, std::string_view name) {
  ENGINE_CHECK(fan_in > 0, "[init] {}: got fan-in {}, expected more than 0", name, fan_in);
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(fan_in)));
  RandomStream random(seed, RandomPurpose::init, hash_of(name));
  auto* values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) values[i] = random.uniform(-bound, bound);
}

}  // namespace engine
