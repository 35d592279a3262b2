// engine_train as its users see it: exit codes, messages, files and signals of the built binary.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/io/safetensors.h"
#include "tests/app/small_data.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Texts = std::vector<std::string>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Texts lines_of(const std::string& text) {
  Texts lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class EngineTrain : public ::testing::Test {
 protected:
  void SetUp() override { write_digits(folder_.file("digits"), 320, 40); }

  std::string file(const std::string& name) const { return folder_.file(name); }
  Texts digits() const {
    return {"--model", "simplecnn", "--dataset", "mnist", "--data-path", file("digits"), "--threads", "2"};
  }
  Texts into(const std::string& name) const { return digits() + Texts{"--output-dir", file(name)}; }

  /// The run failed with the code and one line on standard error that holds the word.
  void expect_error(const Texts& args, int code, const std::string& word) const {
    const ProcessResult run = run_engine(args);
    EXPECT_EQ(run.code, code) << run.err;
    const Texts errors = run.errors();
    ASSERT_EQ(errors.size(), 1u) << run.err;
    EXPECT_NE(errors[0].find(word), std::string::npos) << errors[0];
  }

  TempDir folder_;
};

TEST_F(EngineTrain, EachKindOfFaultHasItsExitCode) {
  expect_error(digits() + Texts{"--no-such-flag"}, 2, "--no-such-flag");
  expect_error({"--model", "simplecnn", "--data-path", file("none"), "--output-dir", file("a")}, 3, file("none"));
  expect_error(into("b") + Texts{"--init-weights", file("none.safetensors")}, 4, "none.safetensors");
  expect_error(into("c") + Texts{"--device", "cuda"}, 5, "cuda");
  expect_error(into("d") + Texts{"--lr", "1e30", "--epochs", "3"}, 7, "loss");
  std::ofstream(file("barrier")) << "x";
  expect_error(into("barrier/out"), 9, file("barrier"));
}

TEST_F(EngineTrain, AFailedStartLeavesNothingBehind) {
  expect_error(into("refused") + Texts{"--lr", "-1"}, 2, "--lr");
  expect_error(into("refused") + Texts{"--num-classes", "3"}, 2, "--num-classes");
  expect_error({"--model", "simplecnn", "--data-path", file("none"), "--output-dir", file("refused")}, 3, "none");
  EXPECT_FALSE(fs::exists(file("refused")));
}

TEST_F(EngineTrain, ControlCharactersAreEscapedInErrors) {
  expect_error({"--config", file("a\nb\x1b[2J")}, 2, "a\\nb\\x1b[2J");
  expect_error({"--a\rb"}, 2, "--a\\rb");
}

TEST_F(EngineTrain, AWholeRun) {
  const ProcessResult run = run_engine(into("run") + Texts{"--epochs", "2", "--log-every", "2"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string last = lines_of(run.out).back();
  EXPECT_TRUE(last.starts_with("done: 2 epochs, 10 steps, val_top1 ")) << last;
  EXPECT_TRUE(last.ends_with(" %, " + file("run"))) << last;
  for (const char* name : {"metrics.jsonl", "train.log", "config.toml", "classes.json", "last.safetensors"}) {
    EXPECT_TRUE(fs::exists(file("run/") + name)) << name;
  }
  EXPECT_NE(read_file(file("run/train.log")).find("batch-size = 64"), std::string::npos);
  EXPECT_NE(run.err.find("320"), std::string::npos) << "the number of pictures";

  // A folder with a run in it is not touched again without --resume.
  expect_error(into("run"), 2, "--output-dir");

  const ProcessResult again =
      run_engine({"--config", file("run/config.toml"), "--output-dir", file("again"), "--quiet"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(lines_of(again.out).size(), 1u);
  const auto a = SafetensorsFile::open(file("run/last.safetensors"));
  const auto b = SafetensorsFile::open(file("again/last.safetensors"));
  EXPECT_EQ(a.data_sha256(), b.data_sha256());
}

TEST_F(EngineTrain, EvaluateExportAndPredictAgree) {
  ASSERT_EQ(run_engine(into("run") + Texts{"--epochs", "3", "--lr", "0.01", "--quiet"}).code, 0);
  const std::string checkpoint = file("run/last.safetensors"), weights = file("weights.safetensors");
  const ProcessResult evaluated = run_engine({"evaluate", "--checkpoint", checkpoint, "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Json whole = Json::parse(evaluated.out);
  EXPECT_EQ(whole["images"], 40);
  EXPECT_EQ(whole.size(), 5u);

  const ProcessResult exported = run_engine({"export", "--checkpoint", checkpoint, "--to", weights, "--json"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(Json::parse(exported.out), Json({{"tensors", 4}, {"bytes", fs::file_size(weights)}}));
  const ProcessResult from_weights =
      run_engine(Texts{"evaluate"} + digits() + Texts{"--init-weights", weights, "--json"});
  ASSERT_EQ(from_weights.code, 0) << from_weights.err;
  EXPECT_EQ(Json::parse(from_weights.out)["val_loss"], whole["val_loss"]);

  write_bmp(file("[odd] \xff name.bmp"), 7);
  const ProcessResult predicted = run_engine({"predict", "--checkpoint", checkpoint, "--json", "--logits",
                                              file("none.png"), "--", file("[odd] \xff name.bmp")});
  EXPECT_EQ(predicted.code, 3);
  EXPECT_EQ(predicted.errors().size(), 1u) << predicted.err;
  const Json predictions = Json::parse(predicted.out)["predictions"];
  ASSERT_EQ(predictions.size(), 2u);
  EXPECT_TRUE(predictions[0].contains("error") && !predictions[0].contains("top"));
  ASSERT_EQ(predictions[1]["top"].size(), 5u);
  EXPECT_EQ(predictions[1]["top"][0]["class"], "7");
  EXPECT_EQ(predictions[1]["top"][0]["index"], 7);
  EXPECT_EQ(predictions[1]["logits"].size(), 10u);
}

TEST_F(EngineTrain, EvaluateAndExportRefuseWhatDoesNotFit) {
  ASSERT_EQ(run_engine(into("run") + Texts{"--steps", "1", "--quiet"}).code, 0);
  const std::string checkpoint = file("run/last.safetensors");
  expect_error({"evaluate", "--checkpoint", checkpoint, "--model", "resnet18"}, 4, checkpoint);
  expect_error({"evaluate"}, 2, "--checkpoint");
  expect_error({"evaluate", "--checkpoint", checkpoint, "--ema"}, 4, "ema");
  expect_error({"export", "--checkpoint", checkpoint}, 2, "--to");
  expect_error({"export", "--checkpoint", checkpoint, "--to", checkpoint}, 2, "--to");
  expect_error({"export", "--checkpoint", checkpoint, "--to", file("none/x")}, 9, file("none"));
  expect_error({"predict", "--checkpoint", checkpoint}, 2, "pictures");

  std::string bytes = read_file(checkpoint);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] + 1);
  std::ofstream(file("damaged"), std::ios::binary) << bytes;
  expect_error({"evaluate", "--checkpoint", file("damaged")}, 4, file("damaged"));
  expect_error({"export", "--checkpoint", file("damaged"), "--to", file("x")}, 4, file("damaged"));
  expect_error(into("resumed") + Texts{"--resume", file("damaged")}, 4, file("damaged"));
}

TEST_F(EngineTrain, InfoSpeaksJson) {
  const Json info = Json::parse(run_engine({"info", "--json"}).out);
  for (const char* key : {"version", "build", "devices", "models", "datasets", "optimizers"})
    EXPECT_TRUE(info.contains(key));
  EXPECT_TRUE(info["build"]["cuda"].is_null());
  EXPECT_EQ(info["devices"][0]["kind"], "cpu");
  EXPECT_GT(info["devices"][0]["memory_bytes"], 0);
  const Json model = Json::parse(run_engine({"info", "--model", "resnet18", "--num-classes", "10", "--json"}).out);
  EXPECT_EQ(model["parameters"], 11181642);
  EXPECT_EQ(run_engine({"info", "--model", "resnet18"}).code, 0);
  EXPECT_EQ(lines_of(run_engine({"--version"}).out).size(), 1u);
}

TEST_F(EngineTrain, StandardOutputThatIsFullIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const ProcessResult run = run_engine({"info", "--json"}, {.output = "/dev/full"});
  EXPECT_EQ(run.code, 9);
}

TEST_F(EngineTrain, BareRunsUseTheBundledDataAndTheirOwnFolder) {
  const ProcessResult run = run_engine({"--model", "simplecnn", "--steps", "2"}, {.folder = folder_.str()});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(lines_of(run.err).at(0).find("--data-path"), std::string::npos) << run.err;
  ASSERT_EQ(std::distance(fs::directory_iterator(file("runs")), fs::directory_iterator()), 1);
  EXPECT_TRUE(fs::directory_iterator(file("runs"))->path().filename().string().starts_with("simplecnn-20"));
  EXPECT_NE(lines_of(run.out).back().find("done: 0 epochs, 2 steps, val_top1 none, runs/simplecnn-"),
            std::string::npos);
}

TEST_F(EngineTrain, H_OPS_01_SignalsStopWithACheckpointAndTheRunGoesOn) {
  const Texts flags{"--epochs", "400", "--steps", "120", "--log-every", "1", "--batch-size", "32"};
  ASSERT_EQ(run_engine(into("whole") + flags).code, 0);
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}}) {
    const std::string name = "stopped-" + std::to_string(code);
    EngineProcess process(into(name) + flags);
    ASSERT_TRUE(process.wait_for("step 20/"));
    process.send(signal);
    const ProcessResult run = process.wait();
    EXPECT_EQ(run.code, code) << run.err;
    ASSERT_TRUE(fs::exists(file(name + "/last.safetensors")));
    const ProcessResult resumed = run_engine(into(name) + flags + Texts{"--resume", "auto"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(SafetensorsFile::open(file(name + "/last.safetensors")).data_sha256(),
              SafetensorsFile::open(file("whole/last.safetensors")).data_sha256());
  }
}

TEST_F(EngineTrain, H_OPS_01_ASecondSignalEndsAtOnce) {
  // One step of all pictures, which takes seconds.
  const Texts flags{"--model",           "resnet18", "--dataset",          "synthetic",
                    "--train-crop-size", "96",       "--accumulate-steps", "40",
                    "--threads",         "1",        "--output-dir",       file("run")};
  EngineProcess process(flags);
  ASSERT_TRUE(process.wait_for("training:"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  process.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_FALSE(process.ended()) << "the first signal waits for the step";
  const auto sent = std::chrono::steady_clock::now();
  process.send(SIGINT);
  const ProcessResult run = process.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(2));
  EXPECT_EQ(run.code, 130);
  EXPECT_FALSE(fs::exists(file("run/last.safetensors")));
}

TEST_F(EngineTrain, H_OPS_02_OutputToAFileIsPlainLines) {
  for (const char* term : {"xterm-256color", "dumb"}) {
    const std::string name = std::string("run-") + term;
    const ProcessResult run =
        run_engine(into(name) + Texts{"--epochs", "4", "--log-every", "5"}, {.environment = {{"TERM", term}}});
    ASSERT_EQ(run.code, 0) << run.err;
    for (const char* byte : {"\r", "\x1b"}) {
      EXPECT_EQ((run.out + run.err).find(byte), std::string::npos);
    }
    const Texts lines = lines_of(run.out);
    EXPECT_EQ(
        std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.find(" loss ") != line.npos; }),
        4);
  }
}

TEST_F(EngineTrain, H_OPS_02_LinesAreThereAtOnceAndOutliveAKill) {
  EngineProcess process(into("run") + Texts{"--epochs", "1000", "--log-every", "1"});
  EXPECT_TRUE(process.wait_for("step 3/"));
  process.send(SIGKILL);
  const ProcessResult run = process.wait();
  EXPECT_EQ(run.signal, SIGKILL);
  EXPECT_NE(run.out.find("step 3/"), std::string::npos);
}

TEST_F(EngineTrain, H_OPS_02_ABarOnATerminal) {
  const Texts flags{"--epochs", "10", "--log-every", "1"};
  const ProcessResult bar = run_engine_on_terminal(into("bar") + flags, 70, {.environment = {{"TERM", "xterm"}}});
  EXPECT_EQ(bar.code, 0);
  EXPECT_NE(bar.out.find("\r\x1b[K"), std::string::npos);
  std::istringstream draws(bar.out);
  for (std::string draw; std::getline(draws, draw, '\r');) {
    if (draw.find("img/s") != std::string::npos && draw.find("\n") == std::string::npos) {
      EXPECT_LT(draw.size(), 70u + std::string("\x1b[K").size()) << draw;
    }
  }
  const ProcessResult dumb = run_engine_on_terminal(into("dumb") + flags, 70, {.environment = {{"TERM", "dumb"}}});
  EXPECT_EQ(dumb.code, 0);
  EXPECT_EQ(dumb.out.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace engine::testing
