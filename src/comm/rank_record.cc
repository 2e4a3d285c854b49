#include "comm/rank_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace mccl {
namespace {

using Json = nlohmann::json;

// "2.13.0 on rank 0, 2.12.1 on ranks 1, 2 (host b)"; empty when all values are equal.
std::string describe_values(const std::vector<RankRecord>& ranks,
                            const std::function<std::string(const RankRecord&)>& value_of) {
  std::vector<std::string> values;  // in the order of the ranks
  std::map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string value = value_of(ranks[rank]);
    if (ranks_of[value].empty()) values.push_back(value);
    ranks_of[value].push_back(rank);
  }
  if (values.size() <= 1) return {};
  std::string text;
  for (const std::string& value : values) {
    const std::vector<size_t>& holders = ranks_of[value];
    constexpr size_t kNamedMax = 8;
    std::set<std::string> hosts;
    for (const size_t rank : holders) hosts.insert(ranks[rank].host_name);
    text += fmt::format(
        "{}\"{}\" on rank{} {}{} (host {}{})", text.empty() ? "" : ", ", value,
        holders.size() == 1 ? "" : "s",
        fmt::join(holders.begin(),
                  holders.begin() + static_cast<long>(std::min(kNamedMax, holders.size())), ", "),
        holders.size() > kNamedMax ? ", ..." : "", *hosts.begin(), hosts.size() > 1 ? ", ..." : "");
  }
  return text;
}

// The value of "NAME=value" in the lines of a settings text.
std::string setting_of(const std::string& settings, const std::string& name) {
  for (size_t begin = 0; begin < settings.size();) {
    const size_t end = std::min(settings.find('\n', begin), settings.size());
    const std::string line = settings.substr(begin, end - begin);
    if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    begin = end + 1;
  }
  return {};
}

// "1f0c2e9a55d0b7aa (a.xml, b.xml)".
std::string describe_programs(const RankRecord& record) {
  constexpr size_t kShownDigits = 16;
  if (record.programs.empty()) return "none";
  return fmt::format("{} ({})", record.programs.substr(0, kShownDigits),
                     fmt::join(record.program_files, ", "));
}

// Each text once, with the ranks that have it.
std::vector<std::string> describe_program_faults(const std::vector<RankRecord>& ranks) {
  std::vector<std::string> faults;
  std::map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].program_fault.empty()) ranks_of[ranks[rank].program_fault].push_back(rank);
  for (const auto& [fault, holders] : ranks_of)
    faults.push_back(fmt::format(
        "{} cannot use {} programs: {}",
        holders.size() == ranks.size()
            ? "the ranks"
            : fmt::format("{}{}",
                          name_of(static_cast<int>(holders.front()), ranks[holders.front()]),
                          holders.size() > 1 ? " and others" : ""),
        holders.size() == ranks.size() || holders.size() > 1 ? "their" : "its", fault));
  return faults;
}

std::set<std::string> setting_names(const std::vector<RankRecord>& ranks) {
  std::set<std::string> names;
  for (const RankRecord& record : ranks)
    for (size_t begin = 0; begin < record.settings.size();) {
      const size_t end = std::min(record.settings.find('\n', begin), record.settings.size());
      names.insert(record.settings.substr(begin, record.settings.find('=', begin) - begin));
      begin = end + 1;
    }
  return names;
}

}  // namespace

nlohmann::json to_json(const RankRecord& record) {
  return {{"process", record.peer.process_id},
          {"token", record.peer.token},
          {"address", record.peer.address},
          {"host", record.host_name},
          {"host_id", record.host_id},
          {"kernel_id", record.kernel_id},
          {"pid", record.pid},
          {"switch", record.switch_name},
          {"settings", record.settings},
          {"secret_check", record.secret_check},
          {"version", record.version},
          {"manifest", record.manifest},
          {"programs", record.programs},
          {"program_files", record.program_files},
          {"program_fault", record.program_fault},
          {"rank_count", record.rank_count},
          {"title", record.title}};
}

RankRecord record_from(const nlohmann::json& json) {
  RankRecord record;
  record.peer.process_id = json.at("process").get<uint64_t>();
  record.peer.token = json.at("token").get<uint64_t>();
  record.peer.address = json.at("address").get<std::string>();
  record.host_name = json.at("host").get<std::string>();
  record.host_id = json.at("host_id").get<std::string>();
  record.kernel_id = json.at("kernel_id").get<std::string>();
  record.pid = json.at("pid").get<int64_t>();
  record.switch_name = json.at("switch").get<std::string>();
  record.settings = json.at("settings").get<std::string>();
  record.secret_check = json.at("secret_check").get<std::string>();
  record.version = json.at("version").get<std::string>();
  record.manifest = json.at("manifest").get<std::vector<std::pair<std::string, std::string>>>();
  record.programs = json.at("programs").get<std::string>();
  record.program_files = json.at("program_files").get<std::vector<std::string>>();
  record.program_fault = json.at("program_fault").get<std::string>();
  record.rank_count = json.at("rank_count").get<int>();
  record.title = json.at("title").get<std::string>();
  return record;
}

bool RankRecord::operator==(const RankRecord& other) const {
  const auto fields = [](const RankRecord& record) {
    return std::tie(record.peer.process_id, record.peer.token, record.peer.address,
                    record.host_name, record.host_id, record.kernel_id, record.pid,
                    record.switch_name, record.settings, record.secret_check, record.version,
                    record.manifest, record.programs, record.program_files, record.program_fault,
                    record.rank_count, record.title);
  };
  return fields(*this) == fields(other);
}

std::string name_of(int rank, const RankRecord& record) {
  return fmt::format("rank {} (host {}, pid {})", rank, record.host_name, record.pid);
}

int count_core_sharers(const std::vector<RankRecord>& ranks, int rank) {
  const std::string& own = ranks[static_cast<size_t>(rank)].kernel_id;
  return static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](const RankRecord& record) {
    return record.kernel_id == own;
  }));
}

Status check_records(const std::vector<RankRecord>& ranks) {
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& what, const std::string& advice, const auto& value) {
    const std::string values = describe_values(ranks, value);
    if (!values.empty()) differences.push_back(what + ": " + values + "; " + advice);
  };
  compare("the ranks form different groups", "all members of a group name the same ranks",
          [](const RankRecord& record) {
            return fmt::format("{} of {} ranks", record.title, record.rank_count);
          });
  compare("the ranks run different versions of mccl", "install the same",
          [](const RankRecord& record) { return record.version; });
  for (const std::string& name : setting_names(ranks))
    compare("the ranks have different values of " + name, "it must be the same on all ranks",
            [&name](const RankRecord& record) { return setting_of(record.settings, name); });
  compare("the ranks have different values of MCCL_SECRET", "it must be the same on all ranks",
          [](const RankRecord& record) {
            return record.secret_check.empty() ? "none" : "one with check " + record.secret_check;
          });
  const bool have_equal_programs = std::all_of(
      ranks.begin(), ranks.end(),
      [&ranks](const RankRecord& record) { return record.programs == ranks.front().programs; });
  const std::vector<std::string> faults = describe_program_faults(ranks);
  // A rank with a fault has loaded nothing, which is no difference of its own.
  if (!have_equal_programs && faults.empty())
    compare("the ranks have loaded different programs",
            "MSCCL_XML_FILES, MSCCL_CONFIG and MCCL_ALGO_DIR name the same programs on all ranks",
            &describe_programs);
  const bool has_switch = !ranks.front().switch_name.empty();
  if (std::any_of(ranks.begin(), ranks.end(), [has_switch](const RankRecord& record) {
        return record.switch_name.empty() == has_switch;
      }))
    compare("only some ranks have MCCL_SWITCH", "name the switch on all ranks or on none",
            [](const RankRecord& record) { return record.switch_name; });
  differences.insert(differences.end(), faults.begin(), faults.end());
  if (differences.empty()) return Status::ok();
  return Status(StatusCode::Mismatch, fmt::format("{}", fmt::join(differences, "; ")));
}

std::vector<std::string> describe_differences(const std::vector<RankRecord>& ranks) {
  std::set<std::string> names;
  for (const RankRecord& record : ranks)
    for (const auto& [name, value] : record.manifest) names.insert(name);
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const std::string values = describe_values(ranks, [&name](const RankRecord& record) {
      for (const auto& [own_name, value] : record.manifest)
        if (own_name == name) return value;
      return std::string("none");
    });
    if (!values.empty()) lines.push_back(name + " differs: " + values);
  }
  return lines;
}

}  // namespace mccl
