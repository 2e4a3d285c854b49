// Tests over many seeds: which ones, from the command line, and two threads that share them out.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/program_prover.h"

namespace mccl {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 0;
};

// What is wrong with a seed, or nothing. Called by both threads; each has a prover of its own.
using SeedCheck =
    std::function<std::string(uint64_t seed, const std::shared_ptr<ProgramProver>& prover)>;

// Adds a failure for every seed that fails, with the command that runs it again; at most ten per
// thread.
void check_seeds(const SeedRange& range, const SeedCheck& check);

// The main() of a program whose test `suite`.`name` takes the seeds of --seeds=FIRST:COUNT, or else
// the first `default_count`.
int run_seed_tests(int argc, char** argv, const char* suite, const char* name,
                   uint64_t default_count, std::function<void(const SeedRange&)> body);

}  // namespace mccl
