#include "engine/app/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/app/command_line.h"
#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

using Texts = std::vector<std::string>;
using testing::TempDir;

Settings settings_of(const Texts& words) {
  const CommandLine line = parse_command_line(words);
  return resolve(merge_config_file(line.flags, line.command), line.command);
}

TrainConfig config_of(const Texts& words) { return settings_of(words).run; }

std::string refusal(const Texts& words) {
  try {
    settings_of(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string write(const TempDir& folder, const std::string& text) {
  const std::string path = folder.file("given.toml");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(Options, DefaultsOfTheInterface) {
  const TrainConfig config = config_of({"--data-path", "x"});
  EXPECT_EQ(config.model, "resnet50");
  EXPECT_EQ(config.data.dataset, "imagefolder");
  EXPECT_EQ(config.epochs, 90);
  EXPECT_EQ(config.batch_size, 32);
  EXPECT_EQ(config.optimizer.opt, "sgd");
  EXPECT_EQ(config.optimizer.lr, 0.1);
  EXPECT_EQ(config.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(config.schedule.lr_scheduler, "step");
  EXPECT_EQ(config.data.train_crop_size, 224);
  EXPECT_EQ(config.data.val_resize_size, 256);
  EXPECT_EQ(config.data.workers, std::max(1, describe_cpu().cores - 1));
  EXPECT_EQ(config.threads, describe_cpu().cores);
}

TEST(Options, DefaultsOfSimpleCnn) {
  const TrainConfig config = config_of({"--model", "simplecnn", "--data-path", "x"});
  EXPECT_EQ(config.data.dataset, "mnist");
  EXPECT_EQ(config.epochs, 10);
  EXPECT_EQ(config.batch_size, 64);
  EXPECT_EQ(config.optimizer.opt, "adam");
  EXPECT_EQ(config.optimizer.lr, 0.001);
  EXPECT_EQ(config.optimizer.weight_decay, 0);
  EXPECT_EQ(config.schedule.lr_scheduler, "constant");
  EXPECT_EQ(config.data.val_crop_size, 28);
}

TEST(Options, BundledPhotosHaveARecipeAndFlagsWin) {
  const TrainConfig recipe = config_of({"--model", "resnet50"});
  EXPECT_EQ(recipe.data.dataset, "samples");
  EXPECT_EQ(recipe.epochs, 8);
  EXPECT_EQ(recipe.optimizer.opt, "adam");
  EXPECT_EQ(recipe.optimizer.lr, 0.001);
  EXPECT_EQ(recipe.schedule.lr_scheduler, "cosine");
  EXPECT_EQ(recipe.schedule.lr_warmup_epochs, 1);
  EXPECT_EQ(recipe.data.train_crop_size, 64);
  EXPECT_EQ(recipe.batch_size, 32);

  const TrainConfig given =
      config_of({"--epochs", "2", "--lr", "0.01", "--train-crop-size", "96", "--lr-warmup-steps", "5"});
  EXPECT_EQ(given.epochs, 2);
  EXPECT_EQ(given.optimizer.lr, 0.01);
  EXPECT_EQ(given.data.train_crop_size, 96);
  EXPECT_EQ(given.schedule.lr_warmup_epochs, 0);

  const TrainConfig sgd = config_of({"--opt", "sgd", "--lr-scheduler", "step"});
  EXPECT_EQ(sgd.optimizer.lr, 0.1);
  EXPECT_EQ(sgd.schedule.lr_warmup_epochs, 0);
  EXPECT_EQ(config_of({"--model", "simplecnn"}).data.dataset, "samples");
}

const std::vector<Texts> kWrongValues = {
    {"--lr", "-0.1"},
    {"--lr", "nan"},
    {"--lr", "inf"},
    {"--lr", "0.1x"},
    {"--lr", ""},
    {"--lr", " 0.1"},
    {"--lr", "1e999"},
    {"--lr", "0x1"},
    {"--batch-size", "0"},
    {"--batch-size", "1.5"},
    {"--batch-size", "32 "},
    {"--epochs", "0"},
    {"--steps", "0"},
    {"--steps", "-1"},
    {"--epochs", "99999999999999999999"},
    {"--accumulate-steps", "0"},
    {"--momentum", "1"},
    {"--momentum", "-0.1"},
    {"--weight-decay", "-1"},
    {"--norm-weight-decay", "-1"},
    {"--bias-weight-decay", "nan"},
    {"--clip-grad-norm", "-1"},
    {"--label-smoothing", "1.5"},
    {"--label-smoothing", "-0.1"},
    {"--ema-decay", "1"},
    {"--lr-step-size", "0"},
    {"--lr-milestones", "30,x"},
    {"--lr-milestones", "30,,60"},
    {"--lr-gamma", "0"},
    {"--lr-min", "-1"},
    {"--lr-warmup-epochs", "-1"},
    {"--lr-warmup-steps", "-1"},
    {"--lr-warmup-decay", "0"},
    {"--lr-warmup-decay", "2"},
    {"--workers", "-1"},
    {"--threads", "0"},
    {"--threads", "100000"},
    {"--train-crop-size", "0"},
    {"--val-resize-size", "0"},
    {"--val-crop-size", "-3"},
    {"--mean", "a,b,c"},
    {"--std", "1,1,-1"},
    {"--max-image-pixels", "0"},
    {"--num-classes", "0"},
    {"--seed", "-1"},
    {"--seed", "18446744073709551616"},
    {"--keep-last", "0"},
    {"--log-every", "0"},
    {"--save-every-steps", "-1"},
    {"--save-every-epochs", "-1"},
    {"--precision", "fp8"},
    {"--loss-scale", "0"},
    {"--loss-scale", "1e30"},
    {"--loss-scale", "much"},
    {"--gradient-checkpointing", "layers"},
    {"--memory-budget", "8"},
    {"--memory-budget", "8GB"},
    {"--memory-budget", "-1GiB"},
    {"--opt", "sdg"},
    {"--dataset", "imagenet"},
    {"--lr-scheduler", "poly"},
    {"--on-bad-image", "ignore"},
    {"--on-nonfinite", "go"},
    {"--model", "resnet51"},
    {"--output-dir", ""},
    {"--device", "tpu"},
    {"--device", "cpu:0"},
    {"--fusion", "yes"},
    {"--data-path", "x", "--dataset", "samples"},
};

TEST(Options, EachWrongValueIsRefusedByName) {
  for (const Texts& words : kWrongValues) {
    const std::string message = refusal(words);
    EXPECT_NE(message.find(words[0].substr(2)), std::string::npos)
        << fmt::format("{} {}", fmt::join(words, " "), message);
    EXPECT_NE(message.find("got"), std::string::npos) << message;
  }
}

TEST(Options, FlagsThatDoNotFitEachOther) {
  const std::vector<std::pair<Texts, std::string>> wrong = {
      {{"--dataset", "mnist"}, "--data-path"},
      {{"--dataset", "synthetic", "--data-path", "x"}, "--data-path"},
      {{"--nesterov"}, "--nesterov"},  // the photos' recipe is adam
      {{"--opt", "sgd", "--nesterov", "--momentum", "0"}, "--nesterov"},
      {{"--lr-scheduler", "multistep"}, "--lr-milestones"},
      {{"--lr-milestones", "60,30", "--lr-scheduler", "multistep"}, "--lr-milestones"},
      {{"--lr-warmup-epochs", "1", "--lr-warmup-steps", "5"}, "--lr-warmup-steps"},
      {{"--lr-min", "1"}, "--lr-min"},
      {{"--memory-budget", "1GiB"}, "--memory-budget"},
      {{"--memory-budget", "1GiB", "--gradient-checkpointing", "blocks"}, "--memory-budget"},
      {{"--reset-head"}, "--reset-head"},
      {{"--test-only"}, "--test-only"},
      {{"--val-resize-size", "32"}, "--val-crop-size"},
      {{"--model", "simplecnn", "--train-crop-size", "32"}, "--train-crop-size"},
      {{"--model", "simplecnn", "--zero-init-residual"}, "--zero-init-residual"},
  };
  for (const auto& [words, flag] : wrong) {
    EXPECT_NE(refusal(words).find(flag), std::string::npos) << fmt::format("{}", fmt::join(words, " "));
  }
}

TEST(Cases, H_REQ_02_StdZeroIsRefused) {
  EXPECT_NE(refusal({"--std", "0.2,0,0.2"}).find("--std: got \"0.2,0,0.2\""), std::string::npos);
  EXPECT_NE(refusal({"--model", "simplecnn", "--std", "0"}).find("--std"), std::string::npos);
  EXPECT_EQ(refusal({"--std", "0.2,0.1,0.2"}), "accepted");
}

TEST(Cases, H_REQ_04_MeanAndStdFitTheChannels) {
  EXPECT_NE(refusal({"--mean", "0.5"}).find("--mean: got 1 numbers, expected 3"), std::string::npos);
  EXPECT_NE(refusal({"--std", "0.5,0.5,0.5,0.5"}).find("--std: got 4 numbers, expected 3"), std::string::npos);
  EXPECT_NE(refusal({"--model", "simplecnn", "--mean", "0.1,0.1,0.1"}).find("--mean"), std::string::npos);
  EXPECT_EQ(refusal({"--model", "simplecnn", "--mean", "0.1", "--std", "0.3"}), "accepted");
  EXPECT_EQ(refusal({"--mean", "0.5", "0.4", "0.3"}), "accepted");
}

TEST(Options, ConfigFileLiesBelowTheCommandLine) {
  const TempDir folder;
  const std::string path =
      write(folder, "model = \"simplecnn\"\nlr = 0.05\nbatch-size = 16\nmean = 0.2\nquiet = true\n");
  const TrainConfig config = config_of({"--config", path, "--lr", "0.02"});
  EXPECT_EQ(config.model, "simplecnn");
  EXPECT_EQ(config.optimizer.lr, 0.02);
  EXPECT_EQ(config.batch_size, 16);
  EXPECT_EQ(config.data.mean, std::vector<float>{0.2f});
  EXPECT_TRUE(config.output.quiet);
  EXPECT_FALSE(config_of({"--config", path, "--quiet=false"}).output.quiet);
}

TEST(Options, ConfigFileIsCheckedLikeTheCommandLine) {
  const TempDir folder;
  for (const auto& [text, word] :
       std::vector<std::pair<std::string, std::string>>{{"learning-rate-of-all = 0.1", "learning-rate-of-all"},
                                                        {"batch_size = 3", "batch_size"},
                                                        {"config = \"other.toml\"", "config"},
                                                        {"checkpoint = \"c\"", "checkpoint"},
                                                        {"lr = -1", "lr: got \"-1\""},
                                                        {"lr = \"0.1\"", "lr"},
                                                        {"lr = true", "lr"},
                                                        {"model = 5", "model"},
                                                        {"model = \"\"", "model"},
                                                        {"nesterov = 1", "nesterov"},
                                                        {"epochs = 1.5", "epochs"},
                                                        {"epochs = [1, 2]", "epochs"},
                                                        {"mean = []", "mean"},
                                                        {"output-dir = \"a\\u0000b\"", "output-dir"}}) {
    EXPECT_NE(refusal({"--config", write(folder, text)}).find(word), std::string::npos) << text;
  }
  EXPECT_NE(refusal({"--config", folder.file("none.toml")}).find("none.toml"), std::string::npos);
  EXPECT_NE(refusal({"--config", folder.str()}).find(folder.str()), std::string::npos);
}

/// What is written down is a configuration that says the same.
TEST(Options, ValuesInForceComeBack) {
  const TempDir folder;
  const std::vector<Texts> lines = {
      {},
      {"--model", "simplecnn"},
      {"--data-path", "/a \"b\" \\ #c \u00e9\n", "--output-dir", "out", "--resume", "auto", "--opt", "lars"},
      {"--data-path",
       "x",
       "--opt",
       "sgd",
       "--nesterov",
       "--lr-scheduler",
       "multistep",
       "--lr-milestones",
       "30,60",
       "--ema-decay",
       "0.99",
       "--norm-weight-decay",
       "0",
       "--clip-grad-norm",
       "1e-7",
       "--mean",
       "0.5,0.25,0.1",
       "--std",
       "1,2,3",
       "--seed",
       "18446744073709551615",
       "--steps",
       "7"},
      {"--config", write(folder, "lr = 3\nlr-scheduler = \"constant\"\n"), "--histograms", "--keep-last", "1"},
      {"--precision", "fp16", "--loss-scale", "128", "--gradient-checkpointing", "auto", "--memory-budget", "1.5GiB"},
  };
  for (const Texts& words : lines) {
    const std::string text = config_text(values_in_force(settings_of(words)));
    const Settings again = resolve(given_in_config(text, "config.toml", kTrain), kTrain);
    EXPECT_EQ(config_text(values_in_force(again)), text);
  }
  const std::string text = config_text(values_in_force(settings_of(lines[3])));
  EXPECT_NE(text.find("lr-milestones = [30, 60]\n"), std::string::npos);
  EXPECT_NE(text.find("clip-grad-norm = 1e-07\n"), std::string::npos);
  EXPECT_NE(text.find("std = [1.0, 2.0, 3.0]\n"), std::string::npos);
  EXPECT_EQ(text.find("lr-step-size"), std::string::npos);
}

TEST(Options, ACheckpointsConfigurationLiesBelowTheLine) {
  const std::string config =
      "model = \"resnet18\"\ndataset = \"imagefolder\"\ndata-path = \"/train\"\nval-crop-size = 64\nval-resize-size = "
      "70\n"
      "mean = [0.1, 0.2, 0.3]\nepochs = 3\na-later-key = 1\n";
  const auto resolved = [&](const Texts& words) {
    const CommandLine line = parse_command_line(words);
    return resolve(with_checkpoint_config(line.flags, config, "c", line.command), line.command).run;
  };
  const TrainConfig plain = resolved({"evaluate", "--checkpoint", "c"});
  EXPECT_EQ(plain.model, "resnet18");
  EXPECT_EQ(plain.data.data_path, "/train");
  EXPECT_EQ(plain.data.val_crop_size, 64);
  EXPECT_EQ(plain.data.mean.size(), 3u);
  const TrainConfig moved =
      resolved({"evaluate", "--checkpoint", "c", "--dataset", "samples", "--val-crop-size", "32"});
  EXPECT_EQ(moved.data.dataset, "samples");
  EXPECT_EQ(moved.data.data_path, "");
  EXPECT_EQ(moved.data.val_crop_size, 32);
  EXPECT_EQ(moved.data.val_resize_size, 70);
  EXPECT_EQ(resolved({"predict", "--checkpoint", "c", "a.jpg"}).data.val_crop_size, 64);
}

/// Split at spaces.
constexpr const char* kTrainingFlags =
    "model num-classes init-weights reset-head zero-init-residual dataset data-path workers "
    "train-crop-size val-resize-size val-crop-size mean std no-augment on-bad-image max-image-pixels "
    "device fusion threads epochs steps batch-size accumulate-steps opt lr momentum nesterov "
    "weight-decay norm-weight-decay bias-weight-decay precision loss-scale gradient-checkpointing "
    "memory-budget clip-grad-norm label-smoothing ema-decay lr-scheduler lr-step-size lr-milestones "
    "lr-gamma lr-min lr-warmup-epochs lr-warmup-steps lr-warmup-decay output-dir resume save-every-steps "
    "save-every-epochs keep-last log-every log-file histograms quiet seed deterministic test-only config "
    "on-nonfinite ";

TEST(Options, EveryFlagOfTheInterfaceIsThere) {
  std::istringstream names(kTrainingFlags);
  for (std::string name; names >> name;) {
    const Flag* flag = find_flag(name);
    ASSERT_NE(flag, nullptr) << name;
    EXPECT_NE(flag->commands & kTrain, 0u) << name;
  }
}

}  // namespace
}  // namespace engine
