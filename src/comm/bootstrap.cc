#include "comm/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

namespace mccl {
namespace {

using Json = nlohmann::json;

constexpr TimeNs kSliceNs = 200 * kNsPerMs;

Json to_json(const RankRecord& record) {
  return {{"process", record.peer.process_id},
          {"token", record.peer.token},
          {"address", record.peer.address},
          {"host", record.host_name},
          {"host_id", record.host_id},
          {"kernel_id", record.kernel_id},
          {"pid", record.pid},
          {"switch", record.switch_name},
          {"settings", record.settings},
          {"version", record.version}};
}

RankRecord record_from(const Json& json) {
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
  record.version = json.at("version").get<std::string>();
  return record;
}

// nlohmann throws on wrong input; here that is an operating error like any other.
template <typename Function>
auto parse_or_fail(const std::string& what, Function function) -> Result<decltype(function())> {
  try {
    return function();
  } catch (const Json::exception& error) {
    return Status(StatusCode::Network, "the store holds no valid " + what + ": " + error.what() +
                                           "; does another program or version use its keys?");
  }
}

// The first line in which two settings texts differ, both sides.
std::string first_difference(const std::string& left, const std::string& right) {
  size_t begin = 0;
  while (begin < left.size() || begin < right.size()) {
    const size_t left_end = std::min(left.find('\n', begin), left.size());
    const size_t right_end = std::min(right.find('\n', begin), right.size());
    const std::string a = left.substr(std::min(begin, left.size()), left_end - begin);
    const std::string b = right.substr(std::min(begin, right.size()), right_end - begin);
    if (a != b) return fmt::format("\"{}\" against \"{}\"", a, b);
    begin = left_end + 1;
  }
  return "nothing";
}

}  // namespace

bool RankRecord::operator==(const RankRecord& other) const {
  const auto fields = [](const RankRecord& record) {
    return std::tie(record.peer.process_id, record.peer.token, record.peer.address,
                    record.host_name, record.host_id, record.kernel_id, record.pid,
                    record.switch_name, record.settings, record.version);
  };
  return fields(*this) == fields(other);
}

int count_core_sharers(const std::vector<RankRecord>& ranks, int rank) {
  const std::string& own = ranks[static_cast<size_t>(rank)].kernel_id;
  return static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](const RankRecord& record) {
    return record.kernel_id == own;
  }));
}

Bootstrap::Bootstrap(Store& store, const Clock& clock, BootstrapOptions options)
    : store_(store),
      clock_(clock),
      options_(std::move(options)),
      deadline_(deadline_after(clock.now(), options_.timeout_ns)) {}

std::string Bootstrap::key_of_rank(int rank) const {
  return fmt::format("mccl/{}/rank/{}", options_.name, rank);
}

std::string Bootstrap::key_of_blob() const {
  return fmt::format("mccl/{}/blob", options_.name);
}

Status Bootstrap::publish(const RankRecord& record) {
  return store_.set(key_of_rank(options_.rank), to_json(record).dump());
}

Result<std::string> Bootstrap::wait_for(const std::string& key) {
  for (;;) {
    const TimeNs left = deadline_ - clock_.now();
    Result<std::optional<std::string>> value =
        store_.get(key, std::clamp<TimeNs>(left, 0, kSliceNs));
    if (!value.is_ok()) return value.status();
    if (value.value().has_value()) return *std::move(value).value();
    if (options_.interrupted && options_.interrupted())
      return Status(StatusCode::Aborted, "the rendezvous was interrupted");
    if (clock_.now() >= deadline_) return missing_ranks();
  }
}

Status Bootstrap::missing_ranks() {
  std::string missing;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    Result<std::optional<std::string>> value = store_.get(key_of_rank(rank), 0);
    if (!value.is_ok()) return value.status();
    if (!value.value().has_value()) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  const double seconds = static_cast<double>(options_.timeout_ns) / 1e9;
  if (missing.empty())
    return Status(StatusCode::Timeout,
                  fmt::format("Timed out after {:.1f} s: rank 0 has not answered although all {} "
                              "ranks of \"{}\" came",
                              seconds, options_.rank_count, options_.name));
  return Status(
      StatusCode::Timeout,
      fmt::format("Timed out after {:.1f} s waiting for the ranks of \"{}\": missing {} of "
                  "{}; were they started, and do they reach the store?",
                  seconds, options_.name, missing, options_.rank_count));
}

Result<std::vector<RankRecord>> Bootstrap::gather(const RankRecord& own) {
  std::vector<RankRecord> ranks;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    if (rank == options_.rank) {
      ranks.push_back(own);
      continue;
    }
    Result<std::string> text = wait_for(key_of_rank(rank));
    if (!text.is_ok()) return text.status();
    Result<RankRecord> record = parse_or_fail("record of rank " + std::to_string(rank), [&] {
      return record_from(Json::parse(text.value()));
    });
    if (!record.is_ok()) return record.status();
    ranks.push_back(std::move(record).value());
  }
  return ranks;
}

Status Bootstrap::check_settings(const std::vector<RankRecord>& ranks) const {
  const RankRecord& first = ranks.front();
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const RankRecord& other = ranks[rank];
    if (other.version != first.version)
      return Status(StatusCode::Mismatch,
                    fmt::format("rank 0 runs mccl {}, rank {} (host {}) runs {}; install the same",
                                first.version, rank, other.host_name, other.version));
    if (other.settings != first.settings)
      return Status(
          StatusCode::Mismatch,
          fmt::format("rank 0 and rank {} (host {}) have different settings: {}; settings "
                      "of scope job must agree",
                      rank, other.host_name, first_difference(first.settings, other.settings)));
    if (other.switch_name.empty() != first.switch_name.empty())
      return Status(
          StatusCode::Mismatch,
          fmt::format("rank 0 (host {}) has MCCL_SWITCH=\"{}\", rank {} (host {}) has \"{}\"; "
                      "name the switch on all ranks or on none",
                      first.host_name, first.switch_name, rank, other.host_name,
                      other.switch_name));
  }
  return Status::ok();
}

Result<Agreement> Bootstrap::finish(const RankRecord& own, uint64_t communicator,
                                    const Decide& decide) {
  if (options_.rank == 0) {
    Result<std::vector<RankRecord>> ranks = gather(own);
    if (!ranks.is_ok()) return ranks.status();
    Agreement agreement{communicator, std::move(ranks).value(), {}};
    Status status = check_settings(agreement.ranks);
    Json blob;
    if (status.is_ok()) {
      Result<PlanTable> table = decide(agreement.ranks);
      status = table.status();
      if (status.is_ok()) agreement.table = std::move(table).value();
    }
    if (status.is_ok()) {
      blob["communicator"] = communicator;
      blob["table"] = write_plan_table(agreement.table);
      blob["ranks"] = Json::array();
      for (const RankRecord& record : agreement.ranks) blob["ranks"].push_back(to_json(record));
    } else {
      blob["error"] = status.message();
      blob["code"] = static_cast<int>(status.code());
    }
    MCCL_RETURN_IF_ERROR(store_.set(key_of_blob(), blob.dump()));
    if (!status.is_ok()) return status;
    return agreement;
  }
  Result<std::string> text = wait_for(key_of_blob());
  if (!text.is_ok()) return text.status();
  Status refusal;
  Result<Agreement> agreement = parse_or_fail("blob of rank 0", [&] {
    const Json blob = Json::parse(text.value());
    Agreement result;
    if (blob.contains("error")) {
      const int code = std::clamp(blob.at("code").get<int>(), 1, 9);
      refusal = Status(static_cast<StatusCode>(code), blob.at("error").get<std::string>());
      return result;
    }
    result.communicator = blob.at("communicator").get<uint64_t>();
    for (const Json& record : blob.at("ranks")) result.ranks.push_back(record_from(record));
    Result<PlanTable> table = parse_plan_table(blob.at("table").get<std::string>());
    if (table.is_ok())
      result.table = std::move(table).value();
    else
      refusal = table.status();
    return result;
  });
  if (!agreement.is_ok()) return agreement;
  MCCL_RETURN_IF_ERROR(refusal);
  const std::vector<RankRecord>& ranks = agreement.value().ranks;
  if (static_cast<int>(ranks.size()) != options_.rank_count)
    return Status(StatusCode::Mismatch,
                  fmt::format("rank 0 formed \"{}\" with {} ranks, this rank expects {}",
                              options_.name, ranks.size(), options_.rank_count));
  if (!(ranks[static_cast<size_t>(options_.rank)] == own))
    return Status(
        StatusCode::Mismatch,
        fmt::format("rank 0 holds another process as rank {} of \"{}\": two processes have "
                    "the same rank, or the store keeps keys of an earlier run",
                    options_.rank, options_.name));
  return agreement;
}

}  // namespace mccl
