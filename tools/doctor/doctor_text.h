// How `mccl doctor` shows what it knows.
#pragma once

#include <string>
#include <vector>

#include "doctor/host_check.h"
#include "doctor/network_report.h"

namespace mccl {

// The matrix, the list of ways, and the verdict.
void print_report(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
                  Terminal& terminal);
// One JSON object.
std::string to_json_text(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
                         ExitCode code);

void print_rows(const std::vector<CheckRow>& rows, Terminal& terminal);
std::string to_json_text(const std::vector<CheckRow>& rows);

}  // namespace mccl
