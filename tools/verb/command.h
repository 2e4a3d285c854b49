// How a command line becomes a verb: git style, one parser per verb.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verb/verb.h"

namespace mccl {

struct Command {
  std::span<const Verb* const> verbs;
  std::string version;  // "0.1.0"
  // Replaces the process by the program `mccl-VERB` of the PATH; returns only when there is none.
  // The first of `arguments` is the program's name.
  std::function<void(const std::vector<std::string>& arguments)> run_program;
};

// `arguments` without the program's name. Usage errors name what is allowed.
ExitCode run_command(const Command& command, const std::vector<std::string>& arguments,
                     Terminal& terminal);

}  // namespace mccl
