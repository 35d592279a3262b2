#include "engine/amp/precision.h"
#include "engine/app/flag_table.h"

namespace engine {

std::vector<Flag> precision_flags() {
  return {
      {.name = "precision",
       .target = [](Settings& s) -> std::string& { return s.run.precision; },
       .help = "of activations and of the weights that are computed with; weights are kept in fp32 in all of them",
       .shown_default = "fp32",
       .choices = precision_names(),
       .commands = kTrain | kPlan},
      {.name = "loss-scale",
       .target = [](Settings& s) -> std::string& { return s.run.loss_scale; },
       .help = "factor of the loss in fp16, so that gradients do not underflow; dynamic finds it",
       .shown_default = "dynamic",
       .metavar = "dynamic|N",
       .number_or_word = true,
       .applies = [](const TrainConfig& c) { return c.precision == "fp16"; }},
      {.name = "gradient-checkpointing",
       .target = [](Settings& s) -> std::string& { return s.run.gradient_checkpointing; },
       .help =
           "compute activations again in the backward pass instead of keeping them: in every residual block, or in as "
           "few as --memory-budget needs",
       .shown_default = "none",
       .choices = {"none", "blocks", "auto"}},
      {.name = "memory-budget",
       .target = [](Settings& s) -> std::string& { return s.run.memory_budget; },
       .help = "what a run may take, for --gradient-checkpointing auto",
       .shown_default = "what is free",
       .metavar = "SIZE, e.g. 8GiB",
       .optional = true,
       .applies = [](const TrainConfig& c) { return c.gradient_checkpointing == "auto"; }},
  };
}

}  // namespace engine
