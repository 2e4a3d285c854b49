#include "doctor/doctor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

// Of more hosts only ways with a finding are listed one by one.
constexpr size_t kHostsListedMax = 8;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

double gigabytes(const PairResult& result) {
  return static_cast<double>(result.bytes_per_second) / 1e9;
}

double microseconds(const PairResult& result) {
  return static_cast<double>(result.round_trip_ns) / 1e3;
}

std::string number_or_dash(int64_t number) {
  return number > 0 ? std::to_string(number) : "-";
}

std::string text_or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string cell_text(const NetworkReport& report, size_t from, size_t to) {
  if (from == to) return ".";
  const PairResult& result = report.pair(from, to);
  if (result.outcome == Outcome::NotMeasured) return "-";
  return result.is_ok() ? fmt::format("{:.3f}", gigabytes(result))
                        : std::string(outcome_name(result.outcome));
}

void print_matrix(const NetworkReport& report, std::ostream& out) {
  size_t width = std::string_view("unreachable").size();
  for (const HostReport& row : report.hosts) width = std::max(width, row.host.name.size());
  out << fmt::format("{:<{}}", "GB/s from, to", width + 2);
  for (const HostReport& row : report.hosts) out << fmt::format("  {:>{}}", row.host.name, width);
  out << "\n";
  for (size_t from = 0; from < report.hosts.size(); ++from) {
    out << fmt::format("{:<{}}", report.hosts[from].host.name, width + 2);
    for (size_t to = 0; to < report.hosts.size(); ++to)
      out << fmt::format("  {:>{}}", cell_text(report, from, to), width);
    out << "\n";
  }
}

bool is_listed(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
               size_t from, size_t to) {
  return report.hosts.size() <= kHostsListedMax ||
         std::any_of(findings.begin(), findings.end(), [&](const NetworkFinding& one) {
           return (one.from == from && one.to == to) || (one.from == to && one.to == from);
         });
}

void print_ways(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
                std::ostream& out) {
  std::vector<std::array<std::string, 9>> rows = {
      {"from", "to", "result", "source", "interface", "us", "GB/s", "MTU", "segment"}};
  for (size_t from = 0; from < report.hosts.size(); ++from)
    for (size_t to = 0; to < report.hosts.size(); ++to) {
      const PairResult& one = report.pair(from, to);
      if (one.outcome == Outcome::NotMeasured || !is_listed(report, findings, from, to)) continue;
      const std::string interface =
          one.interface.empty() ? "-"
                                : fmt::format("{} ({})", one.interface,
                                              interface_kind_name(interface_kind(one.interface)));
      rows.push_back({report.hosts[from].host.name, text_or_dash(one.to_address),
                      std::string(outcome_name(one.outcome)), text_or_dash(one.from_address),
                      interface, one.is_ok() ? fmt::format("{:.1f}", microseconds(one)) : "-",
                      one.is_ok() ? fmt::format("{:.3f}", gigabytes(one)) : "-",
                      number_or_dash(one.packet_bytes_max), number_or_dash(one.segment_bytes_max)});
    }
  if (rows.size() == 1) return;
  constexpr size_t kTextColumns = 5;
  std::array<size_t, 9> widths{};
  for (const auto& row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  out << "\n";
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column)
      line += fmt::format(fmt::runtime(column < kTextColumns ? "{:<{}}  " : "{:>{}}  "),
                          row[column], widths[column]);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

Json to_json(const NetworkReport& report, size_t from, size_t to) {
  const PairResult& one = report.pair(from, to);
  return {{"from", report.hosts[from].host.name},
          {"to", report.hosts[to].host.name},
          {"outcome", outcome_name(one.outcome)},
          {"words", one.words},
          {"from_address", one.from_address},
          {"to_address", one.to_address},
          {"interface", one.interface},
          {"interface_kind",
           one.interface.empty() ? "" : interface_kind_name(interface_kind(one.interface))},
          {"round_trip_us", microseconds(one)},
          {"bytes_per_second", one.bytes_per_second},
          {"mtu_bytes", one.packet_bytes_max},
          {"segment_bytes", one.segment_bytes_max}};
}

}  // namespace

void print_report(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
                  Terminal& terminal) {
  std::ostream& out = terminal.out;
  out << fmt::format(
      "{} hosts, tcp port {}, one pair at a time, one connection, 8-byte round trips; measured\n\n",
      report.hosts.size(), report.port);
  print_matrix(report, out);
  print_ways(report, findings, out);
  out << "\n";
  for (const NetworkFinding& finding : findings) out << terminal.bold(finding.text) << "\n";
  if (findings.empty()) out << "every host reaches every other one, and nothing is odd\n";
}

std::string to_json_text(const NetworkReport& report, const std::vector<NetworkFinding>& findings,
                         ExitCode code) {
  Json json = {{"verb", "doctor"},         {"kind", figure_kind_name(FigureKind::Measured)},
               {"port", report.port},      {"exit_status", static_cast<int>(code)},
               {"hosts", Json::array()},   {"pairs", Json::array()},
               {"findings", Json::array()}};
  for (const HostReport& row : report.hosts)
    json["hosts"].push_back({{"name", row.host.name},
                             {"address", row.host.address},
                             {"has_come", row.has_come},
                             {"is_lost", row.is_lost}});
  for (size_t from = 0; from < report.hosts.size(); ++from)
    for (size_t to = 0; to < report.hosts.size(); ++to)
      if (from != to) json["pairs"].push_back(to_json(report, from, to));
  for (const NetworkFinding& finding : findings)
    json["findings"].push_back({{"kind", finding_kind_name(finding.kind)},
                                {"from", report.hosts[finding.from].host.name},
                                {"to", report.hosts[finding.to].host.name},
                                {"text", finding.text}});
  return dump(json);
}

void print_rows(const std::vector<CheckRow>& rows, Terminal& terminal) {
  for (const CheckRow& row : rows) {
    const std::string line =
        fmt::format("{:<5}{:<12}{}", row.is_ok ? "ok" : "warn", row.subject, row.text);
    terminal.out << (row.is_ok ? line : terminal.bold(line)) << "\n";
  }
}

std::string to_json_text(const std::vector<CheckRow>& rows) {
  Json json = {{"verb", "doctor"}, {"checks", Json::array()}};
  for (const CheckRow& row : rows)
    json["checks"].push_back(
        {{"subject", row.subject}, {"result", row.is_ok ? "ok" : "warn"}, {"text", row.text}});
  return dump(json);
}

}  // namespace mccl
