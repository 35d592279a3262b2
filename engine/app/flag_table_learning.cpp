#include "engine/app/flag_table.h"

namespace engine {
namespace {

bool is_sgd_like(const TrainConfig& c) { return c.optimizer.opt == "sgd" || c.optimizer.opt == "lars"; }
bool is_stepwise(const TrainConfig& c) {
  return c.schedule.lr_scheduler == "step" || c.schedule.lr_scheduler == "multistep";
}

}  // namespace

std::vector<Flag> optimizer_flags() {
  return {
      {.name = "opt",
       .target = [](Settings& s) -> std::string& { return s.run.optimizer.opt; },
       .help = "optimizer",
       .shown_default = "sgd; adam for simplecnn and the bundled photos",
       .choices = {"sgd", "adam", "adamw", "lars"},
       .commands = kTrain | kPlan},
      {.name = "lr",
       .target = [](Settings& s) -> double& { return s.run.optimizer.lr; },
       .help = "learning rate",
       .shown_default = "0.1; 0.001 for simplecnn and the bundled photos",
       .limits = kFromZero},
      {.name = "momentum",
       .target = [](Settings& s) -> double& { return s.run.optimizer.momentum; },
       .help = "of sgd and lars",
       .shown_default = "0.9",
       .limits = {0, 1, false, true},
       .applies = is_sgd_like},
      {.name = "nesterov",
       .target = [](Settings& s) -> bool& { return s.run.optimizer.nesterov; },
       .help = "Nesterov's momentum, sgd only",
       .applies = [](const TrainConfig& c) { return c.optimizer.opt == "sgd"; }},
      {.name = "weight-decay",
       .target = [](Settings& s) -> double& { return s.run.optimizer.weight_decay; },
       .help = "added to the gradient times the weight; decoupled in adamw",
       .shown_default = "1e-4; 0 for simplecnn and the bundled photos",
       .limits = kFromZero},
  };
}

std::vector<Flag> regularisation_flags() {
  return {
      {.name = "norm-weight-decay",
       .target = [](Settings& s) -> std::optional<double>& { return s.run.optimizer.norm_weight_decay; },
       .help = "weight decay of batch norms",
       .shown_default = "as --weight-decay",
       .limits = kFromZero,
       .optional = true},
      {.name = "bias-weight-decay",
       .target = [](Settings& s) -> std::optional<double>& { return s.run.optimizer.bias_weight_decay; },
       .help = "weight decay of biases",
       .shown_default = "as --weight-decay",
       .limits = kFromZero,
       .optional = true},
      {.name = "clip-grad-norm",
       .target = [](Settings& s) -> double& { return s.run.optimizer.clip_grad_norm; },
       .help = "largest norm of all gradients together; 0 is off",
       .shown_default = "off",
       .limits = kFromZero,
       .optional = true},
      {.name = "label-smoothing",
       .target = [](Settings& s) -> double& { return s.run.label_smoothing; },
       .help = "share of the target spread over all classes",
       .shown_default = "0",
       .limits = {0, 1}},
      {.name = "ema-decay",
       .target = [](Settings& s) -> double& { return s.run.ema_decay; },
       .help = "keep a moving average of the weights with this decay; 0 is off",
       .shown_default = "off",
       .limits = {0, 1, false, true},
       .optional = true},
  };
}

std::vector<Flag> schedule_flags() {
  return {
      {.name = "lr-scheduler",
       .target = [](Settings& s) -> std::string& { return s.run.schedule.lr_scheduler; },
       .help = "how the learning rate falls",
       .shown_default = "step; constant for simplecnn; cosine for the bundled photos",
       .choices = {"constant", "step", "multistep", "cosine"}},
      {.name = "lr-step-size",
       .target = [](Settings& s) -> int64_t& { return s.run.schedule.lr_step_size; },
       .help = "epochs between two falls of step",
       .shown_default = "30",
       .limits = {1, 1e9},
       .applies = [](const TrainConfig& c) { return c.schedule.lr_scheduler == "step"; }},
      {.name = "lr-milestones",
       .target = [](Settings& s) -> std::vector<int64_t>& { return s.run.schedule.lr_milestones; },
       .help = "epochs of the falls of multistep, with commas",
       .limits = {1, 1e9},
       .optional = true,
       .applies = [](const TrainConfig& c) { return c.schedule.lr_scheduler == "multistep"; }},
      {.name = "lr-gamma",
       .target = [](Settings& s) -> double& { return s.run.schedule.lr_gamma; },
       .help = "factor at each fall of step and multistep",
       .shown_default = "0.1",
       .limits = {0, kNoLimit, true},
       .applies = is_stepwise},
      {.name = "lr-min",
       .target = [](Settings& s) -> double& { return s.run.schedule.lr_min; },
       .help = "where cosine ends",
       .shown_default = "0",
       .limits = kFromZero,
       .applies = [](const TrainConfig& c) { return c.schedule.lr_scheduler == "cosine"; }},
      {.name = "lr-warmup-epochs",
       .target = [](Settings& s) -> int64_t& { return s.run.schedule.lr_warmup_epochs; },
       .help = "epochs of linear warm-up",
       .shown_default = "0; 1 for the bundled photos",
       .limits = {0, 1e9}},
      {.name = "lr-warmup-steps",
       .target = [](Settings& s) -> int64_t& { return s.run.schedule.lr_warmup_steps; },
       .help = "steps of linear warm-up, in place of epochs",
       .shown_default = "0",
       .limits = {0, 1e15}},
      {.name = "lr-warmup-decay",
       .target = [](Settings& s) -> double& { return s.run.schedule.lr_warmup_decay; },
       .help = "share of the learning rate that the warm-up begins with",
       .shown_default = "0.01",
       .limits = {0, 1, true}},
  };
}

}  // namespace engine
