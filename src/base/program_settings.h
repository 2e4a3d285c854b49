// The settings about programs from files: rows of the table in config.cc.
#pragma once

#include <vector>

#include "base/config.h"

namespace mccl {

std::vector<SettingRow> program_setting_rows();

}  // namespace mccl
