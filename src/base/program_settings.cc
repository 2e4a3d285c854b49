// Which programs are read from files, and which calls they may serve. The names of others that mean
// the same here are fallbacks; those that mean nothing here are told of. Tested by config_test.cc.
#include "base/program_settings.h"

#include <algorithm>
#include <array>

#include "base/setting_text.h"

namespace mccl {
namespace {

struct ForeignSetting {
  std::string_view name;
  std::string_view advice;
};

constexpr std::array kForeignSettings = {
    ForeignSetting{"MSCCL_SCHEDULER",
                   "programs are selected here by their size windows and priorities; see "
                   "mccl.explain()"},
    ForeignSetting{"NCCL_MSCCL_ENABLE",
                   "programs from files are on as soon as MSCCL_XML_FILES, MSCCL_CONFIG or "
                   "MCCL_ALGO_DIR name some; MCCL_ALGO=^msccl turns them off"},
    ForeignSetting{"NCCL_MSCCL_MEM_SYNC_DOMAIN", "there is nothing like it here"},
    ForeignSetting{"RCCL_MSCCLPP_ENABLE", "there is nothing like it here"},
    ForeignSetting{"RCCL_MSCCLPP_THRESHOLD", "there is nothing like it here"},
    ForeignSetting{"RCCL_MSCCL_ENABLE",
                   "programs from files are on as soon as MSCCL_XML_FILES, MSCCL_CONFIG or "
                   "MCCL_ALGO_DIR name some; MCCL_ALGO=^msccl turns them off"},
    ForeignSetting{"RCCL_MSCCL_ENABLE_SINGLE_PROCESS",
                   "any number of ranks may live in a process here"},
    ForeignSetting{"RCCL_MSCCL_FORCE_ENABLE", "programs run on any machine here"},
    ForeignSetting{"RCCL_MSCCL_FORCE_FULLOPS", "all instructions always run here"},
    ForeignSetting{"RCCL_MSCCL_WORK_FIFO_DEPTH", "MCCL_PARK_LIMIT bounds what is held here"},
};

template <std::string Config::*Field>
SettingRow path_row(std::string_view name, std::string_view type, std::string_view effect) {
  return {.name = name,
          .type = type,
          .unit = "",
          .scope = SettingScope::Local,
          .effect = effect,
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                config->*Field = text;
                return true;
              },
          .write = [](const Config& config) { return config.*Field; }};
}

SettingRow folder_row() {
  SettingRow row = path_row<&Config::program_folder>(
      "MCCL_ALGO_DIR", "a folder",
      "Every *.xml in it is a program that may be chosen: docs/custom-algorithms.md. All ranks "
      "load the same programs, from wherever; their digests are compared.");
  row.fallbacks = {"MSCCL_ALGO_DIR"};
  return row;
}

SettingRow fit_row() {
  return {
      .name = "MCCL_ALGO_FIT",
      .type = "auto or strict",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "auto: a call that a program from a file nearly fits is made to fit (counts that do not "
          "divide, copies for in-place claims, averages as sum and division), and that is counted. "
          "strict: MSCCL's own rules; what does not fit goes to the next program.",
      .fallbacks = {},
      .parse =
          [](std::string_view text, Config* config) {
            const std::string lower = lower_case(text);
            if (lower != "auto" && lower != "strict") return false;
            config->is_fit_strict = lower == "strict";
            return true;
          },
      .write = [](const Config& config) { return config.is_fit_strict ? "strict" : "auto"; }};
}

SettingRow unproven_row() {
  return {
      .name = "MCCL_ALGO_UNPROVEN",
      .type = "allow or off",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "allow: a program from a file that is proven to end, without races, but not to compute "
          "its collective runs all the same, and a warning says so. What may hang, race or read "
          "what nobody wrote never runs.",
      .fallbacks = {},
      .parse = [](std::string_view text,
                  Config* config) { return parse_switch(text, "allow", &config->allows_unproven); },
      .write = [](const Config& config) { return config.allows_unproven ? "allow" : "off"; }};
}

bool parse_protocols(std::string_view text, Config* config) {
  std::string list = lower_case(text);
  std::erase(list, ' ');
  std::string_view rest = list;
  if (rest.starts_with('^')) rest.remove_prefix(1);
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    const std::string_view name = rest.substr(begin, end - begin);
    if (name != "simple" && name != "ll" && name != "ll128") return false;
    begin = end + 1;
  }
  config->protocols = list;
  return true;
}

SettingRow protocol_row() {
  return {
      .name = "MCCL_PROTO",
      .type = "a comma list of Simple, LL and LL128; a leading ^ excludes them",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "Programs from files of these protocols may be chosen. A protocol is a way of GPUs to "
          "signal and means nothing else here. Unset: all.",
      .fallbacks = {"NCCL_PROTO"},
      .parse = parse_protocols,
      .write = [](const Config& config) { return config.protocols; }};
}

SettingRow topology_row() {
  return {.name = "MCCL_TOPOLOGY",
          .type = "a name of at most 255 printable characters without blanks",
          .unit = "",
          .scope = SettingScope::Job,
          .effect =
              "What the machines of this job are called in programs from files that name a "
              "topology; such programs run on no other.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                constexpr size_t kNameMax = 255;
                const bool is_name = std::all_of(text.begin(), text.end(), [](char letter) {
                  return letter > ' ' && letter <= '~';
                });
                if (!is_name || text.size() > kNameMax) return false;
                config->topology_name = text;
                return true;
              },
          .write = [](const Config& config) { return config.topology_name; }};
}

bool parse_algorithms(std::string_view text, Config* config) {
  std::string list = lower_case(text);
  std::erase(list, ' ');
  const auto is_allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
           std::string_view("_,;:^").find(letter) != std::string_view::npos;
  };
  if (list.empty() || !std::all_of(list.begin(), list.end(), is_allowed)) return false;
  config->algorithms = list;
  return true;
}

SettingRow algorithm_row() {
  return {
      .name = "MCCL_ALGO",
      .type = "a comma list of algorithms (a leading ^ excludes them), or the name of a program",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "The algorithms that may be chosen, by full name (`all_reduce_ring`) or the part after "
          "the "
          "collective (`ring`). `msccl` means all programs from files. A collective of which the "
          "list names none is not restricted. Unset: all of them.",
      .fallbacks = {"NCCL_ALGO"},
      .parse = parse_algorithms,
      .write = [](const Config& config) { return config.algorithms; }};
}

SettingRow algorithm_strict_row() {
  return {
      .name = "MCCL_ALGO_STRICT",
      .type = "0 or 1",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "1: a call that nothing in MCCL_ALGO serves is an error, with the first rule that is in "
          "the way. 0: another algorithm runs, and a notice says so.",
      .fallbacks = {},
      .parse = [](std::string_view text,
                  Config* config) { return parse_switch(text, "1", &config->is_algorithm_strict); },
      .write = [](const Config& config) { return config.is_algorithm_strict ? "1" : "0"; }};
}

}  // namespace

std::vector<SettingRow> program_setting_rows() {
  return {algorithm_row(),
          algorithm_strict_row(),
          folder_row(),
          fit_row(),
          unproven_row(),
          protocol_row(),
          topology_row(),
          path_row<&Config::program_list_file>(
              "MSCCL_CONFIG", "a file",
              "MSCCL's list of programs, each with a size window of its own: "
              "docs/custom-algorithms.md."),
          path_row<&Config::program_files>(
              "MSCCL_XML_FILES", "files, separated by colons",
              "Programs that may be chosen: docs/custom-algorithms.md. All ranks load the same "
              "programs, from wherever; their digests are compared.")};
}

std::vector<std::string> describe_foreign_settings(EnvironmentView environment) {
  std::vector<std::string> lines;
  for (const ForeignSetting& foreign : kForeignSettings)
    for (const auto& [name, value] : environment)
      if (name == foreign.name && !value.empty())
        lines.push_back(name + " has no effect: " + std::string(foreign.advice));
  return lines;
}

}  // namespace mccl
