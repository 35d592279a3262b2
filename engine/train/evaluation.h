#pragma once
// One pass over a validation part.

#include <functional>
#include <optional>

#include "engine/nn/module.h"
#include "engine/train/batch_source.h"
#include "engine/train/progress.h"

namespace engine {

struct EvaluationOptions {
  ProgressListener* progress = nullptr;
  std::function<bool()> cancelled;  // asked after each batch
};

/// In evaluation mode, without gradients; the mode is put back. Loss without smoothing, mean over all pictures; each is
/// counted once. None where it was cancelled. step and epoch of the report are the caller's. Throws DataError where
/// there is no picture.
std::optional<EvalReport> evaluate_model(Module& model, BatchSource& source, const EvaluationOptions& options = {});

/// Evaluates the first batch and forgets the result, so that a shortage of memory shows before the training begins.
/// `pictures` becomes the batch's shape before it takes memory of the device.
void try_evaluation(Module& model, BatchSource& source, Shape& pictures);

}  // namespace engine
