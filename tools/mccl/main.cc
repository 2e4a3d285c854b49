// The command `mccl`: lists the verbs and looks at the terminal. A verb is a folder beside this one
// and a line in kVerbs.
#include <unistd.h>

#include <array>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/config.h"
#include "check/check_verb.h"
#include "convert/convert_verb.h"
#include "doctor/doctor_verb.h"
#include "dump/dump_verb.h"
#include "env/env_verb.h"
#include "explain/explain_verb.h"
#include "fit/fit_verb.h"
#include "overlap/overlap_verb.h"
#include "perf/perf_verb.h"
#include "plan/plan_verb.h"
#include "show/show_verb.h"
#include "simulate/simulate_verb.h"
#include "tune/tune_verb.h"
#include "verb/command.h"

namespace {

constexpr std::array kVerbs = {&mccl::kCheckVerb,   &mccl::kConvertVerb, &mccl::kDoctorVerb,
                               &mccl::kDumpVerb,    &mccl::kEnvVerb,     &mccl::kExplainVerb,
                               &mccl::kFitVerb,     &mccl::kOverlapVerb, &mccl::kPerfVerb,
                               &mccl::kPlanVerb,    &mccl::kShowVerb,    &mccl::kSimulateVerb,
                               &mccl::kTuneVerb};

// Beside this program, as in an environment that is not activated, else along the PATH. Returns
// only when there is nothing to run.
void run_program(const std::string& own_path, const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const size_t slash = own_path.rfind('/');
  if (slash != std::string::npos)
    execv((own_path.substr(0, slash + 1) + arguments.front()).c_str(), words.data());
  execvp(words.front(), words.data());
}

}  // namespace

int main(int argument_count, char** arguments) {
  mccl::Terminal terminal{.out = std::cout,
                          .err = std::cerr,
                          .has_colour = isatty(STDOUT_FILENO) == 1 && mccl::is_colour_allowed(),
                          .shows_progress = isatty(STDERR_FILENO) == 1};
  const mccl::Command command = {.verbs = kVerbs,
                                 .version = MCCL_VERSION,
                                 .run_program = [&](const std::vector<std::string>& words) {
                                   run_program(arguments[0], words);
                                 }};
  mccl::ExitCode code = mccl::ExitCode::No;
  try {
    code = mccl::run_command(command, {arguments + 1, arguments + argument_count}, terminal);
  } catch (const std::bad_alloc&) {
    std::cerr << "mccl: there is not enough memory for this; make it smaller\n";
  }
  // A result that could not be written is not a result.
  return std::cout.flush() ? static_cast<int>(code) : 1;
}
