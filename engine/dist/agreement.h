#pragma once
// What all processes must have in common before and while they train.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/dist/communicator.h"
#include "engine/nn/flat_parameters.h"

namespace engine {

/// Gives every process the parameters, running statistics and counters of rank 0, compute copies included, and verifies
/// them.
void broadcast_model(Communicator& processes, FlatParameters& parameters);

/// Throws engine::Error on every rank where a model's bits differ from rank 0's, naming rank and part; `when` says at
/// what point of the run.
void verify_same_model(Communicator& processes, const FlatParameters& parameters, const std::string& when);

/// Throws ConfigError on every rank where a setting's value differs from rank 0's, naming it, the rank and both values.
void agree_on(Communicator& processes, const std::vector<std::pair<std::string, std::string>>& settings);

/// Runs work that may fail on some ranks, before anybody waits for them in a collective: reading a checkpoint, making a
/// folder on rank 0. Where it throws, that rank throws the same and all others PeerError with its rank and words.
void do_together(Communicator& processes, const std::string& what, const std::function<void()>& work);

}  // namespace engine
