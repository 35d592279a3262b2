#include "engine/app/command_line.h"

#include <gtest/gtest.h>

#include "engine/app/help.h"
#include "engine/core/error.h"

namespace engine {
namespace {

CommandLine parse(const std::vector<std::string>& words) { return parse_command_line(words); }

std::string refusal(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "accepted";
}

using Texts = std::vector<std::string>;

TEST(CommandLine, SplitsFlagsAndValues) {
  const CommandLine line = parse({"--lr", "0.1", "--data-path=/a b", "--nesterov", "--quiet=false", "--lr", "-0.5"});
  EXPECT_EQ(line.command, kTrain);
  EXPECT_EQ(line.flags.at("lr").texts, Texts{"-0.5"});
  EXPECT_EQ(line.flags.at("data-path").texts, Texts{"/a b"});
  EXPECT_EQ(line.flags.at("nesterov").texts, Texts{"true"});
  EXPECT_EQ(line.flags.at("quiet").texts, Texts{"false"});
  EXPECT_EQ(line.flags.size(), 4u);
}

TEST(CommandLine, ListsTakeSeveralWords) {
  const CommandLine line = parse({"--mean", "0.1", "0.2", "0.3", "--std", "1,2,3"});
  EXPECT_EQ(line.flags.at("mean").texts, (Texts{"0.1", "0.2", "0.3"}));
  EXPECT_EQ(line.flags.at("std").texts, Texts{"1,2,3"});
}

TEST(CommandLine, CommandsHaveFlagsOfTheirOwn) {
  const CommandLine line = parse({"predict", "--checkpoint", "c", "info", "[a].jpg", "--logits", "--", "-b.jpg"});
  EXPECT_EQ(line.command, kPredict);
  EXPECT_EQ(line.arguments, (Texts{"info", "[a].jpg", "-b.jpg"}));
  EXPECT_TRUE(line.flags.contains("logits"));
  EXPECT_NE(refusal({"predict", "--epochs", "3"}).find("--epochs: got an unknown flag"), std::string::npos);
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(refusal({"--no-such-flag"}).find("--no-such-flag"), std::string::npos);
  EXPECT_NE(refusal({"--learning-rate", "1"}).find("--learning-rate: got an unknown flag"), std::string::npos);
  EXPECT_NE(refusal({"--batchsize", "1"}).find("did you mean --batch-size?"), std::string::npos);
  EXPECT_NE(refusal({"--batch_size=1"}).find("did you mean --batch-size?"), std::string::npos);
  EXPECT_NE(refusal({"train"}).find("got \"train\""), std::string::npos);
  EXPECT_NE(refusal({"--lr", "1", "evaluate"}).find("the command's name goes first"), std::string::npos);
  EXPECT_NE(refusal({"-0.1"}).find("-0.1"), std::string::npos);
}

TEST(CommandLine, FlagsOfLaterIssuesAreAbsent) {
  for (const char* flag : {"--zero", "--bucket-mb", "--comm-timeout", "--sync-bn", "--model-parallel"}) {
    EXPECT_NE(refusal({flag}).find("unknown flag"), std::string::npos) << flag;
  }
}

TEST(CommandLine, RefusesMissingValues) {
  for (const Texts& words :
       {Texts{"--lr"}, Texts{"--lr="}, Texts{"--lr=", "0.1"}, Texts{"--data-path", "--lr", "0.1"}}) {
    EXPECT_NE(refusal(words).find("got no value"), std::string::npos) << words[0];
  }
}

TEST(CommandLine, HelpOfEachCommandShowsItsFlags) {
  EXPECT_EQ(parse({"--help"}).request, Request::help);
  EXPECT_EQ(parse({"--version"}).request, Request::version);
  EXPECT_EQ(parse({"export", "--help"}).request, Request::help);
  for (const Command command : {kTrain, kEvaluate, kPredict, kExport, kInfo, kPlan}) {
    const std::string text = help_text(command);
    for (const Flag& flag : all_flags()) {
      const bool shown = text.find("--" + flag.name + " ") != std::string::npos ||
                         text.find("--" + flag.name + "\n") != std::string::npos;
      const bool has = (flag.commands & command) != 0;
      const bool named_in_text = !has && shown;  // another flag's help may name it
      EXPECT_TRUE(shown == has || named_in_text) << name_of(command) << " " << flag.name;
    }
  }
}

}  // namespace
}  // namespace engine
