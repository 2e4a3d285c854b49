#include "verb/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ostream>

#include "base/nearest_name.h"

namespace mccl {
namespace {

std::string overview(const Command& command) {
  std::string text =
      "usage: mccl VERB [OPTIONS]\n"
      "       mccl VERB -h | --version\n\n"
      "verbs:\n";
  for (const Verb* verb : command.verbs)
    text += fmt::format("  {:<10} {}\n", verb->name, verb->summary);
  text +=
      "\nAny other VERB is the program mccl-VERB of the PATH.\n"
      "Exit status: 0 ok, 1 the answer is no, 2 usage, 3 network, 4 timeout.\n";
  return text;
}

ExitCode run_verb(const Verb& verb, const std::vector<std::string>& arguments, Terminal& terminal) {
  CLI::App app{std::string(verb.summary), fmt::format("mccl {}", verb.name)};
  app.footer(fmt::format("Example:\n{}", verb.example));
  app.add_flag("--json", terminal.is_json, "One JSON object on standard output");
  const VerbRun run = verb.declare(app);
  // An empty word is a shell variable that was not set: no option means anything by it, and the
  // parser would take it for zero or for "not given".
  for (const std::string& word : arguments)
    if (word.empty() || (word.starts_with("--") && word.ends_with("="))) {
      terminal.err << fmt::format(
          "mccl {}: \"{}\" has no value; `mccl {} -h` says what is allowed\n", verb.name, word,
          verb.name);
      return ExitCode::Usage;
    }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    terminal.out << app.help();
    return ExitCode::Ok;
  } catch (const CLI::ParseError& error) {
    terminal.err << fmt::format("mccl {}: {}; `mccl {} -h` says what is allowed\n", verb.name,
                                error.what(), verb.name);
    return ExitCode::Usage;
  }
  return run(terminal);
}

ExitCode run_other(const Command& command, const std::vector<std::string>& arguments,
                   Terminal& terminal) {
  const std::string& name = arguments.front();
  // A name with a slash would be a path, not a program of the PATH.
  if (name.find('/') == std::string::npos && !name.starts_with("-")) {
    std::vector<std::string> program = arguments;
    program.front() = "mccl-" + name;
    command.run_program(program);
  }
  std::vector<std::string_view> names;
  for (const Verb* verb : command.verbs) names.push_back(verb->name);
  terminal.err << fmt::format(
      "mccl: there is no verb {} and no program mccl-{} on the PATH; the nearest verb is {}\n",
      name, name, find_nearest_name(name, names));
  return ExitCode::Usage;
}

}  // namespace

ExitCode run_command(const Command& command, const std::vector<std::string>& arguments,
                     Terminal& terminal) {
  if (arguments.empty()) {
    terminal.err << overview(command);
    return ExitCode::Usage;
  }
  const std::string& name = arguments.front();
  if (name == "-h" || name == "--help" || name == "help") {
    terminal.out << overview(command);
    return ExitCode::Ok;
  }
  if (name == "--version") {
    terminal.out << "mccl " << command.version << "\n";
    return ExitCode::Ok;
  }
  const auto verb = std::find_if(command.verbs.begin(), command.verbs.end(),
                                 [&](const Verb* one) { return one->name == name; });
  if (verb == command.verbs.end()) return run_other(command, arguments, terminal);
  return run_verb(**verb, {arguments.begin() + 1, arguments.end()}, terminal);
}

}  // namespace mccl
