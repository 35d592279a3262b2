#pragma once
// How gradients are grouped for sending.

#include <cstdint>
#include <vector>

namespace engine {

class FlatParameters;

/// A run of parameters' gradients in one region of the flat buffers (FlatParameters::regions()).
struct Bucket {
  int region = 0;
  int64_t begin = 0, end = 0;   // elements of the region's gradients, gaps included
  std::vector<int> parameters;  // indices of FlatParameters::ranges()
};

/// Buckets in the order in which backward() completes them: parameters last to first. Each grows until it has `bytes`,
/// the first one until it has `first_bytes`, so that sending begins early; no parameter is split. All of the regions
/// is in some bucket. (As PyTorch's DistributedDataParallel does it.)
std::vector<Bucket> plan_buckets(const FlatParameters& parameters, int64_t first_bytes, int64_t bytes);

}  // namespace engine
