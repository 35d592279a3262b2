// A process of a run that loses one of its ranks: steps of computing and collectives for ever, until something happens.
//
//   tests_dist_worker FOLDER TIMEOUT KIND VICTIM STEP
//
// Each rank writes its process id to FOLDER/pid.RANK after its third step. KIND is what happens to rank VICTIM at STEP:
//   loop    nothing
//   device  nothing; gradients are those of the accelerator
//   throw   throws
//   drop    throws, and leaves it to its objects to tell the others
//   hang    the main thread stops, the process lives
//   watch   the same, while the others wait for it by means of their own
//   leave   ends without a word, exit code 0
//   absent  never connects

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/dist/device_communicator.h"
#include "engine/dist/processes.h"

namespace engine::testing {
namespace {

struct Plan {
  std::string folder, kind;
  double timeout;
  int victim;
  int64_t step;
};

void happen(const Plan& plan) {
  if (plan.kind == "throw" || plan.kind == "drop")
    throw DataError("the file of rank " + std::to_string(plan.victim) + " is damaged");
  if (plan.kind == "leave") _exit(0);
  while (plan.kind == "hang" || plan.kind == "watch") std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// Gradients on the host or, carried by the communicator of devices, on the accelerator.
class Gradients {
 public:
  Gradients(Communicator& communicator, bool on_device)
      : values_(Tensor::empty({1 << 20}, DType::f32, MemoryCategory::gradients,
                              on_device ? Device::accelerator() : Device::cpu())),
        communicator_(communicator) {
    if (on_device) devices_ = connect_devices(communicator, values_.device());
    values_.fill(1);
  }

  void start() {
    if (!devices_) {
      request_ = communicator_.start_all_reduce("gradients", buffer_of(values_), ReduceOp::average);
      return;
    }
    devices_->enqueue({.kind = CollectiveKind::all_reduce,
                       .name = "gradients",
                       .buffer = buffer_of(values_),
                       .op = ReduceOp::average},
                      compute_stream(values_.device()));
  }

  void finish() {
    request_.wait();
    if (devices_) devices_->synchronize(compute_stream(values_.device()));
    if (values_.narrow(0, 5, 1).item() != 1) throw Error("the average of ones is not one");
  }

 private:
  Tensor values_;
  Communicator& communicator_;
  std::unique_ptr<DeviceCommunicator> devices_;
  Request request_;
};

void watch_others(Communicator& communicator) {
  const auto watch = communicator.watch("all_reduce of other means");
  for (;;) {
    communicator.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void train(Communicator& communicator, const Plan& plan) {
  std::vector<float> loss(3, 1.0F);
  Gradients gradients(communicator, plan.kind == "device");
  try {
    for (int64_t step = 0;; ++step) {
      const bool now = step == plan.step && communicator.rank() == plan.victim;
      // With a collective on its way the victim would miss the others, who watch, as early as they miss it.
      if (now && plan.kind == "watch") happen(plan);
      gradients.start();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (now) happen(plan);
      gradients.finish();
      communicator.all_reduce("loss", buffer_of(std::span(loss)), ReduceOp::average);
      if (step == 3) {
        std::ofstream(plan.folder + "/pid." + std::to_string(communicator.rank())) << getpid() << std::endl;
      }
      if (step + 1 == plan.step && plan.kind == "watch" && communicator.rank() != plan.victim) {
        watch_others(communicator);
      }
    }
  } catch (const std::exception& error) {
    if (plan.kind != "drop") communicator.fail(error.what());
    throw;
  }
}

int run(const Plan& plan) {
  while (plan.kind == "absent" && std::getenv("OMPI_COMM_WORLD_RANK") == std::to_string(plan.victim)) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  try {
    const auto communicator = connect_processes(plan.timeout);
    train(*communicator, plan);
  } catch (const Error& error) {
    std::fprintf(stderr, "worker: error: %s; %s\n", error.what(), error.hint().c_str());
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace
}  // namespace engine::testing

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  return engine::testing::run({argv[1], argv[3], std::stod(argv[2]), std::stoi(argv[4]), std::stoll(argv[5])});
}
