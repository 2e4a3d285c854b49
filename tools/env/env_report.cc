#include "env/env_report.h"

#include <algorithm>

namespace mccl {

bool EnvReport::is_usable() const {
  return std::all_of(rows.begin(), rows.end(), [](const EnvRow& row) { return row.fault.empty(); });
}

EnvReport make_env_report(EnvironmentView environment) {
  EnvReport report;
  const Config defaults;
  for (const SettingRow& setting : settings()) {
    const auto [variable, text] = find_source(setting, environment);
    Config config;
    EnvRow row{.name = setting.name,
               .default_value = write_shown_value(setting, defaults),
               .value = {},
               .origin = "default",
               .scope = setting.scope,
               .fault = {}};
    if (!variable.empty())
      row.origin = variable == setting.name ? "environment" : std::string(variable);
    if (!variable.empty() && !setting.parse(text, &config))
      row.fault = std::string(variable) + "=" + (setting.is_secret ? "..." : std::string(text)) +
                  " is not allowed: give " + std::string(setting.type);
    row.value = write_shown_value(setting, config);
    report.rows.push_back(std::move(row));
  }
  report.unknown = find_unknown_settings(environment);
  return report;
}

}  // namespace mccl
