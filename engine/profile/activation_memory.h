#pragma once

#include <vector>

#include "engine/profile/conv_network.h"

namespace engine {

/// Device memory that activations and their gradients take at the worst moment of a training step with `batch` pictures
/// of {h, w, c} `input`. What the operations keep for the backward pass is counted: pictures, each convolution's result
/// (the batch norm behind it reads it again), each normalised activation that is stored, a bit a value for the ReLU at
/// a block's end, a byte a value for the index of the pooling. The backward pass gives back what it is done with, so
/// the worst moment is the one where what is still kept and the gradients at hand are the most.
int64_t activation_bytes(const std::vector<LayerDescription>& layers, const Shape& input, int64_t batch,
                         kernels::ElementType type, const kernels::FusionTarget& target);

}  // namespace engine
