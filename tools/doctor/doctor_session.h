// One host's part in `mccl doctor --hosts`: the hosts meet, every pair measures, one at a time, and
// the first host reports.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "doctor/host_list.h"
#include "doctor/measurement.h"
#include "doctor/network_report.h"
#include "mccl/status.h"
#include "verb/verb.h"

namespace mccl {

struct SessionOptions {
  std::string host_list;  // --hosts, which all hosts must have been given alike
  std::vector<DoctorHost> hosts;
  size_t self = 0;
  ListenPlace listen_place;
  uint16_t port = 0;
  TimeNs timeout_ns = 0;  // for the hosts to meet
  MeasureLimits limits;
  double rate_ratio_max = kRateRatioMax;
  std::function<void(const std::string&)> notice = [](const std::string&) {};    // who is missing
  std::function<void(const std::string&)> progress = [](const std::string&) {};  // what is done now
};

struct SessionResult {
  ExitCode code = ExitCode::Ok;          // on every host that the first one knows the same
  std::optional<NetworkReport> report;   // on the first host
  std::vector<NetworkFinding> findings;  // of the report
};

// Blocks. The error is what keeps this host from taking part: its port, or what it saw of the first
// host.
Result<SessionResult> run_session(const SessionOptions& options, const Clock& clock);

}  // namespace mccl
