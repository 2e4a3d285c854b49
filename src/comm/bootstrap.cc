#include "comm/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace mccl {
namespace {

using Json = nlohmann::json;

constexpr TimeNs kSliceNs = 200 * kNsPerMs;
constexpr TimeNs kPauseNs = 50 * kNsPerMs;
// The error of a meeting that this rank has missed counts unless rank 0 calls another one by then.
constexpr TimeNs kFailureNs = 5 * kNsPerSecond;
// Rank 0 may be about to call the next meeting.
constexpr TimeNs kOtherGroupNs = 300 * kNsPerMs;
// Who waits longer is told for whom, and again after as long as it has waited.
constexpr TimeNs kNoticeNs = 5 * kNsPerSecond;

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

// The error that a blob holds instead of an agreement; ok when it holds none.
Status error_of(const std::string& blob) {
  const auto parsed = parse_or_fail("blob", [&]() -> std::optional<Status> {
    const Json json = Json::parse(blob);
    if (!json.contains("error")) return std::nullopt;
    const int code =
        std::clamp(json.at("code").get<int>(), 1, static_cast<int>(StatusCode::Internal));
    return Status(static_cast<StatusCode>(code), json.at("error").get<std::string>(),
                  json.at("rank").get<int>(), json.at("peer").get<int>());
  });
  return parsed.is_ok() ? parsed.value().value_or(Status::ok()) : parsed.status();
}

Result<std::optional<RankRecord>> parse_record(int rank,
                                               const Result<std::optional<std::string>>& text) {
  if (!text.is_ok()) return text.status();
  if (!text.value().has_value()) return std::optional<RankRecord>();
  return parse_or_fail("record of rank " + std::to_string(rank), [&] {
    return std::optional<RankRecord>(record_from(Json::parse(*text.value())));
  });
}

}  // namespace

std::vector<int> control_neighbours(int rank, int rank_count) {
  std::vector<int> neighbours;
  if (rank > 0) neighbours.push_back(control_parent(rank));
  const int first_child = rank * kControlTreeArity + 1;
  for (int child = first_child; child < first_child + kControlTreeArity; ++child)
    if (child < rank_count) neighbours.push_back(child);
  return neighbours;
}

Bootstrap::Bootstrap(Store& store, const Clock& clock, BootstrapHost& host,
                     BootstrapOptions options)
    : store_(store),
      clock_(clock),
      host_(host),
      options_(std::move(options)),
      begin_(clock.now()),
      deadline_(deadline_after(begin_, options_.timeout_ns)),
      notice_at_(deadline_after(begin_, kNoticeNs)) {}

std::string Bootstrap::key_of_meeting() const {
  return fmt::format("mccl/{}/meeting", options_.name);
}

std::string Bootstrap::key_of_rank(int rank) const {
  return fmt::format("mccl/{}/{}/rank/{}", options_.name, meeting_, rank);
}

std::string Bootstrap::key_of_blob() const {
  return fmt::format("mccl/{}/{}/blob", options_.name, meeting_);
}

Status Bootstrap::publish(const RankRecord& record, uint64_t meeting) {
  own_ = record;
  own_.rank_count = options_.rank_count;
  own_.title = options_.title;
  if (options_.rank > 0) return join();
  meeting_ = fmt::format("{:016x}", meeting);
  MCCL_RETURN_IF_ERROR(store_.set(key_of_rank(0), to_json(own_).dump()));
  return store_.set(key_of_meeting(), meeting_);
}

Status Bootstrap::join() {
  const std::string left = meeting_;  // not again into the meeting that another one replaces
  TimeNs over_since = kNever;
  for (;;) {
    Result<std::optional<std::string>> called =
        store_.get(key_of_meeting(), std::clamp<TimeNs>(deadline_ - clock_.now(), 0, kSliceNs));
    if (!called.is_ok()) return called.status();
    if (called.value().has_value() && *called.value() != left) {
      meeting_ = *called.value();
      Result<std::optional<std::string>> blob = store_.get(key_of_blob(), 0);
      if (!blob.is_ok()) return blob.status();
      if (!blob.value().has_value())
        return store_.set(key_of_rank(options_.rank), to_json(own_).dump());
      // Over before this rank came: of an earlier run, or its ranks have failed just now.
      over_since = std::min(over_since, clock_.now());
      const Result<bool> was_here = took_part();
      if (!was_here.is_ok()) return was_here.status();
      if (!was_here.value()) {
        if (clock_.now() - over_since >= kFailureNs) MCCL_RETURN_IF_ERROR(error_of(*blob.value()));
        MCCL_RETURN_IF_ERROR(check_over(over_since));
      }
      pause();
    }
    if (options_.interrupted && options_.interrupted())
      return Status(StatusCode::Aborted, "the rendezvous was interrupted");
    MCCL_RETURN_IF_ERROR(host_.failure());
    if (clock_.now() >= deadline_) {
      const double seconds = static_cast<double>(options_.timeout_ns) / 1e9;
      return Status(StatusCode::Timeout,
                    fmt::format("Timed out after {:.1f} s waiting for rank 0 of {}; was it "
                                "started, and does it reach the store?",
                                seconds, options_.title));
    }
    give_notice();
  }
}

// Ranks leave a group that has failed at different times, to form another one: rank 0 may come
// last.
Result<bool> Bootstrap::took_part() {
  if (looked_at_ == meeting_) return has_taken_part_;
  const Result<std::optional<RankRecord>> leader = find_record(0);
  if (!leader.is_ok()) return leader.status();
  looked_at_ = meeting_;
  has_taken_part_ = false;
  const int rank_count = leader.value().has_value() ? leader.value()->rank_count : 0;
  for (int rank = 0; rank < rank_count && !has_taken_part_; ++rank) {
    const Result<std::optional<RankRecord>> record = find_record(rank);
    if (!record.is_ok()) return record.status();
    // Its endpoint may have been another one.
    has_taken_part_ = record.value().has_value() && record.value()->pid == own_.pid &&
                      record.value()->host_id == own_.host_id;
  }
  return has_taken_part_;
}

Status Bootstrap::check_over(TimeNs since) {
  const Result<std::optional<RankRecord>> leader = find_record(0);
  if (!leader.is_ok()) return leader.status();
  if (!leader.value().has_value()) return Status::ok();
  const RankRecord& other = *leader.value();
  if (other.rank_count == own_.rank_count && other.title == own_.title) return Status::ok();
  host_.connect(other.peer);
  if (clock_.now() - since < kOtherGroupNs || !host_.is_connected(other.peer.process_id))
    return Status::ok();
  return describe_other_group(other.rank_count, other.title);
}

Status Bootstrap::describe_other_group(int rank_count, const std::string& title) const {
  return Status(StatusCode::Mismatch,
                fmt::format("rank 0 formed {} of {} ranks, rank {} expects {} of {} ranks; all "
                            "members of a group name the same ranks",
                            title, rank_count, options_.rank, options_.title, options_.rank_count),
                options_.rank, 0);
}

// A get of what is never set waits in the store's own way.
void Bootstrap::pause() {
  const TimeNs left = std::clamp<TimeNs>(deadline_ - clock_.now(), 0, kPauseNs);
  (void)store_.get(fmt::format("mccl/{}/never", options_.name), left);
}

void Bootstrap::give_notice() {
  const TimeNs now = clock_.now();
  if (now < notice_at_) return;
  notice_at_ = deadline_after(now, now - begin_);
  host_.notice(fmt::format("{} has waited {:.0f} s for {}", options_.title,
                           static_cast<double>(now - begin_) / 1e9, missing_text()));
}

std::string Bootstrap::missing_text() {
  if (meeting_.empty()) return "rank 0";
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    const Result<std::optional<std::string>> value = store_.get(key_of_rank(rank), 0);
    if (value.is_ok() && !value.value().has_value())
      missing += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  if (count == 0) return {};
  return fmt::format("rank{} {} of {}", count == 1 ? "" : "s", missing, options_.rank_count);
}

Status Bootstrap::missing_ranks() {
  const std::string missing = missing_text();
  const double seconds = static_cast<double>(options_.timeout_ns) / 1e9;
  if (missing.empty())
    return Status(StatusCode::Timeout,
                  fmt::format("Timed out after {:.1f} s: rank 0 has not answered although all {} "
                              "ranks of {} came",
                              seconds, options_.rank_count, options_.title));
  return Status(StatusCode::Timeout,
                fmt::format("Timed out after {:.1f} s waiting for {} of {}; were they started, and "
                            "do they reach the store?",
                            seconds, missing, options_.title));
}

Result<std::optional<RankRecord>> Bootstrap::find_record(int rank) {
  return parse_record(rank, store_.get(key_of_rank(rank), 0));
}

Result<std::optional<RankRecord>> Bootstrap::await_record(int rank) {
  return parse_record(rank, wait_for(key_of_rank(rank)));
}

Status Bootstrap::heard_error() {
  const Result<std::optional<std::string>> blob = store_.get(key_of_blob(), 0);
  if (!blob.is_ok()) return blob.status();
  return blob.value().has_value() ? error_of(*blob.value()) : Status::ok();
}

Status Bootstrap::find_lost() {
  const std::map<uint64_t, Status> lost = host_.lost_processes();
  if (lost.empty()) return Status::ok();
  for (const int rank : control_neighbours(options_.rank, options_.rank_count)) {
    const Result<std::optional<RankRecord>> record = find_record(rank);
    if (!record.is_ok()) return record.status();
    if (!record.value().has_value()) continue;
    const auto found = lost.find(record.value()->peer.process_id);
    if (found != lost.end())
      return Status(
          StatusCode::PeerLost,
          fmt::format("lost {} during the rendezvous of {}: {}", name_of(rank, *record.value()),
                      options_.title, found->second.message()),
          options_.rank, rank);
  }
  return Status::ok();
}

Status Bootstrap::look_around(bool* has_new_meeting) {
  if (options_.interrupted && options_.interrupted())
    return Status(StatusCode::Aborted, "the rendezvous was interrupted");
  MCCL_RETURN_IF_ERROR(host_.failure());
  const Status lost = find_lost();
  if (!lost.is_ok()) {
    // Whoever gives up says so before it goes.
    const Result<std::optional<std::string>> blob = store_.get(key_of_blob(), 0);
    if (blob.is_ok() && blob.value().has_value()) MCCL_RETURN_IF_ERROR(error_of(*blob.value()));
    return lost;
  }
  const Result<std::optional<std::string>> called = store_.get(key_of_meeting(), 0);
  if (!called.is_ok()) return called.status();
  *has_new_meeting = called.value().has_value() && *called.value() != meeting_;
  if (*has_new_meeting && options_.rank == 0)
    return Status(StatusCode::Mismatch,
                  fmt::format("two processes lead {}: this one (pid {}, {}) and another; two have "
                              "rank 0, or the ranks name different members for the group",
                              options_.title, own_.pid, own_.peer.address));
  if (*has_new_meeting) return Status::ok();
  MCCL_RETURN_IF_ERROR(heard_error());
  if (clock_.now() >= deadline_) return missing_ranks();
  give_notice();
  return Status::ok();
}

Result<std::optional<std::string>> Bootstrap::wait_for(const std::string& key) {
  for (;;) {
    const TimeNs left = deadline_ - clock_.now();
    Result<std::optional<std::string>> value =
        store_.get(key, std::clamp<TimeNs>(left, 0, kSliceNs));
    if (!value.is_ok() || value.value().has_value()) return value;
    bool has_new_meeting = false;
    MCCL_RETURN_IF_ERROR(look_around(&has_new_meeting));
    if (has_new_meeting) return std::optional<std::string>();
  }
}

Status Bootstrap::spread(const Status& error) {
  if (meeting_.empty()) return error;
  const Result<std::optional<std::string>> blob = store_.get(key_of_blob(), 0);
  if (!blob.is_ok() || blob.value().has_value()) return error;
  const std::string text = error.code() == StatusCode::Aborted
                               ? name_of(options_.rank, own_) + ": " + error.message()
                               : error.message();
  const Json json{{"error", text},
                  {"code", static_cast<int>(error.code())},
                  {"rank", error.rank()},
                  {"peer", error.peer()}};
  (void)store_.set(key_of_blob(), json.dump());  // without the store nobody can be told
  return error;
}

Result<std::vector<RankRecord>> Bootstrap::gather() {
  std::vector<RankRecord> ranks = {own_};
  for (int rank = 1; rank < options_.rank_count; ++rank) {
    Result<std::optional<RankRecord>> record = await_record(rank);
    if (!record.is_ok()) return record.status();
    MCCL_CHECK(record.value().has_value());  // rank 0 goes over to no other meeting
    ranks.push_back(*std::move(record).value());
    // Two groups may differ in their length: who is told of it need not wait for the rest.
    if (ranks.back().rank_count != options_.rank_count || ranks.back().title != options_.title)
      break;
  }
  MCCL_RETURN_IF_ERROR(check_records(ranks));
  return ranks;
}

Result<Agreement> Bootstrap::lead(const Decide& decide) {
  Result<std::vector<RankRecord>> ranks = gather();
  if (!ranks.is_ok()) return ranks.status();
  for (const std::string& line : describe_differences(ranks.value())) host_.notice(line);
  Result<PlanTable> table = decide(ranks.value());
  if (!table.is_ok()) return table.status();
  Agreement agreement{std::stoull(meeting_, nullptr, 16), std::move(ranks).value(),
                      std::move(table).value()};
  Json blob{{"table", write_plan_table(agreement.table)}, {"ranks", Json::array()}};
  for (const RankRecord& record : agreement.ranks) blob["ranks"].push_back(to_json(record));
  // Whoever has failed meanwhile has said so.
  MCCL_RETURN_IF_ERROR(heard_error());
  MCCL_RETURN_IF_ERROR(store_.set(key_of_blob(), blob.dump()));
  return agreement;
}

Result<Agreement> Bootstrap::parse_blob(const std::string& text) const {
  MCCL_RETURN_IF_ERROR(error_of(text));
  Status refusal;
  Result<Agreement> agreement = parse_or_fail("blob of rank 0", [&] {
    const Json blob = Json::parse(text);
    Agreement result;
    result.communicator = std::stoull(meeting_, nullptr, 16);
    for (const Json& record : blob.at("ranks")) result.ranks.push_back(record_from(record));
    Result<PlanTable> table =
        parse_plan_table(blob.at("table").get<std::string>(), options_.algorithms);
    if (table.is_ok())
      result.table = std::move(table).value();
    else
      refusal = table.status();
    return result;
  });
  if (!agreement.is_ok()) return agreement;
  MCCL_RETURN_IF_ERROR(refusal);
  const std::vector<RankRecord>& ranks = agreement.value().ranks;
  if (static_cast<int>(ranks.size()) != options_.rank_count ||
      ranks.front().title != options_.title)
    return describe_other_group(static_cast<int>(ranks.size()), ranks.front().title);
  if (!(ranks[static_cast<size_t>(options_.rank)] == own_))
    return Status(StatusCode::Mismatch,
                  fmt::format("rank 0 holds another process as rank {} of {}: two processes have "
                              "the same rank, or one has been started again meanwhile",
                              options_.rank, options_.title));
  return agreement;
}

Result<Agreement> Bootstrap::follow() {
  for (;;) {
    const Result<std::optional<RankRecord>> parent = await_record(control_parent(options_.rank));
    if (!parent.is_ok()) return parent.status();
    if (parent.value().has_value()) {
      host_.connect(parent.value()->peer);
      const Result<std::optional<std::string>> blob = wait_for(key_of_blob());
      if (!blob.is_ok()) return blob.status();
      if (blob.value().has_value()) return parse_blob(*blob.value());
    }
    MCCL_RETURN_IF_ERROR(join());
  }
}

Result<Agreement> Bootstrap::finish(const Decide& decide) {
  Result<Agreement> agreement = options_.rank == 0 ? lead(decide) : follow();
  if (!agreement.is_ok()) return spread(agreement.status());
  return agreement;
}

}  // namespace mccl
