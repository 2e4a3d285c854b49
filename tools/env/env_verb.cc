#include "env/env_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "env/env_report.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

std::string_view scope_name(SettingScope scope) {
  return scope == SettingScope::Job ? "job" : "local";
}

Json to_json(const EnvReport& report) {
  Json json = {{"verb", "env"}, {"settings", Json::array()}, {"unknown", Json::array()}};
  for (const EnvRow& row : report.rows)
    json["settings"].push_back({{"name", row.name},
                                {"default", row.default_value},
                                {"value", row.value},
                                {"origin", row.origin},
                                {"scope", scope_name(row.scope)},
                                {"fault", row.fault}});
  for (const UnknownSetting& unknown : report.unknown)
    json["unknown"].push_back({{"name", unknown.name}, {"nearest", unknown.nearest}});
  return json;
}

void print(const EnvReport& report, Terminal& terminal) {
  size_t value_width = 5, default_width = 7;
  for (const EnvRow& row : report.rows) {
    value_width = std::max(value_width, row.value.size());
    default_width = std::max(default_width, row.default_value.size());
  }
  const auto line = [&](std::string_view name, std::string_view value,
                        std::string_view default_value, std::string_view scope,
                        std::string_view origin) {
    return fmt::format("{:<23} {:<{}}  {:<{}}  {:<5}  {}", name, value.empty() ? "unset" : value,
                       value_width, default_value.empty() ? "unset" : default_value, default_width,
                       scope, origin);
  };
  terminal.out << line("name", "value", "default", "scope", "origin") << "\n";
  for (const EnvRow& row : report.rows) {
    const std::string text =
        line(row.name, row.value, row.default_value, scope_name(row.scope), row.origin);
    terminal.out << (row.origin == "default" ? text : terminal.bold(text)) << "\n";
  }
  for (const EnvRow& row : report.rows)
    if (!row.fault.empty()) terminal.out << row.fault << "\n";
  for (const UnknownSetting& unknown : report.unknown)
    terminal.out << fmt::format("{} is not a setting and has no effect; the nearest is {}\n",
                                unknown.name, unknown.nearest);
}

ExitCode run(Terminal& terminal) {
  const EnvReport report = make_env_report(read_environment());
  if (terminal.is_json)
    terminal.out << to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  else
    print(report, terminal);
  return report.is_usable() ? ExitCode::Ok : ExitCode::No;
}

VerbRun declare(CLI::App&) {
  return &run;
}

}  // namespace

const Verb kEnvVerb = {.name = "env",
                       .summary = "every setting, its value here and where that comes from",
                       .example =
                           "  mccl env --json\n"
                           "  MCCL_TIMEOUT=60 mccl env",
                       .declare = &declare};

}  // namespace mccl
