// Prints docs/settings.md, generated from the table of settings.
//   settings_doc               the page on standard output
//   settings_doc --check FILE  0 when FILE is that page, 1 when it is stale or missing
#include <string>

#include "../page_main.h"
#include "base/config.h"

namespace mccl {
namespace {

constexpr const char* kOpening =
    "# Settings\n"
    "\n"
    "Generated from the table in `src/base/config.cc` by `make docs`; do not edit.\n"
    "\n"
    "Every setting is an environment variable. An empty value counts as none. A value that is not\n"
    "allowed is an error, and all such values are reported at once. An unknown `MCCL_` name is "
    "warned\n"
    "about, with the nearest known one.\n"
    "\n"
    "**Scope.** *job*: all ranks must have the same value; this is checked when they meet. "
    "*local*:\n"
    "each rank has its own.\n"
    "\n"
    "| name | allowed | unit | default | scope | effect |\n"
    "|---|---|---|---|---|---|\n";

std::string effect_text(const SettingRow& row) {
  std::string text(row.effect);
  for (size_t index = 0; index < row.fallbacks.size(); ++index) {
    text += index == 0 ? " Where it is unset: `" : ", then `";
    text += std::string(row.fallbacks[index]) + "`";
  }
  if (!row.fallbacks.empty()) text += ".";
  return text;
}

std::string settings_page() {
  std::string page = kOpening;
  for (const SettingRow& row : settings()) {
    const std::string value = row.write(Config{});
    page += "| `" + std::string(row.name) + "` | " + std::string(row.type) + " | ";
    page += std::string(row.unit) + " | " + (value.empty() ? "unset" : "`" + value + "`") + " | ";
    page += row.scope == SettingScope::Job ? "job" : "local";
    page += " | " + effect_text(row) + " |\n";
  }
  return page;
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  return mccl::run_page_main("settings_doc", mccl::settings_page(), argument_count, arguments);
}
