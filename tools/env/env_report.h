// Every setting as an environment gives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace mccl {

struct EnvRow {
  std::string_view name;
  std::string default_value;  // empty: unset
  std::string value;          // as it counts; of a secret "(set)", or empty
  std::string origin;         // "environment", "NCCL_ALGO", "default"
  SettingScope scope = SettingScope::Local;
  std::string fault;  // why the value is not allowed; the default is shown then
};

struct EnvReport {
  std::vector<EnvRow> rows;  // by name
  std::vector<UnknownSetting> unknown;
  bool is_usable() const;  // no row has a fault
};

EnvReport make_env_report(EnvironmentView environment);

}  // namespace mccl
