#include "comm/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "transport/frame.h"

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

// For a request of a rank that gives up; and for rank 0's last word on who is missing.
constexpr TimeNs kLastWordNs = 2 * kNsPerSecond;

Status interruption() {
  return Status(StatusCode::Aborted, "the rendezvous was interrupted");
}

Status invalid_text(const std::string& what, const std::string& why) {
  return Status(StatusCode::Network, "the store holds no valid " + what + ": " + why +
                                         "; does another program or version use its keys?");
}

// nlohmann throws on wrong input; here that is an operating error like any other.
template <typename Function>
auto parse_or_fail(const std::string& what, Function function) -> Result<decltype(function())> {
  try {
    return function();
  } catch (const Json::exception& error) {
    return invalid_text(what, error.what());
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

std::string Bootstrap::key_of_late() const {
  return fmt::format("mccl/{}/{}/late", options_.name, meeting_);
}

// Latched: the caller's function may say so once only.
bool Bootstrap::is_interrupted() {
  if (!has_been_interrupted_ && options_.interrupted)
    has_been_interrupted_ = options_.interrupted();
  return has_been_interrupted_;
}

StoreBound Bootstrap::bound() {
  StoreBound bound;
  bound.answer_ns = is_leaving_
                        ? kLastWordNs
                        : std::clamp(deadline_ - clock_.now(), kLastWordNs, bound.answer_ns);
  if (options_.interrupted && !is_leaving_) bound.interrupted = [this] { return is_interrupted(); };
  return bound;
}

Status Bootstrap::set(const std::string& key, const std::string& value) {
  const Status status = store_.set_within(bound(), key, value);
  return !status.is_ok() && has_been_interrupted_ ? interruption() : status;
}

Result<std::optional<std::string>> Bootstrap::get(const std::string& key, TimeNs timeout_ns) {
  Result<std::optional<std::string>> value = store_.get_within(bound(), key, timeout_ns);
  if (!value.is_ok() && has_been_interrupted_) return interruption();
  return value;
}

Status Bootstrap::parse_meeting(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, 16);
  if (error != std::errc() || rest != end)
    return invalid_text("number of a meeting", fmt::format("\"{:.40}\"", text));
  meeting_ = text;
  meeting_number_ = number;
  return Status::ok();
}

Status Bootstrap::publish(const RankRecord& record, uint64_t meeting) {
  own_ = record;
  own_.rank_count = options_.rank_count;
  own_.title = options_.title;
  if (options_.rank > 0) return join();
  meeting_ = fmt::format("{:016x}", meeting);
  meeting_number_ = meeting;
  MCCL_RETURN_IF_ERROR(publish_record());
  return set(key_of_meeting(), meeting_);
}

Status Bootstrap::publish_record() {
  if (options_.check_secret) own_.secret_check = options_.check_secret(meeting_);
  return set(key_of_rank(options_.rank), to_json(own_).dump());
}

Status Bootstrap::join() {
  const std::string left = meeting_;  // not again into the meeting that another one replaces
  TimeNs over_since = kNever;
  has_joined_ = false;
  for (;;) {
    Result<std::optional<std::string>> called =
        get(key_of_meeting(), std::clamp<TimeNs>(deadline_ - clock_.now(), 0, kSliceNs));
    if (!called.is_ok()) return called.status();
    if (called.value().has_value() && *called.value() != left) {
      MCCL_RETURN_IF_ERROR(parse_meeting(*called.value()));
      Result<std::optional<std::string>> blob = get(key_of_blob(), 0);
      if (!blob.is_ok()) return blob.status();
      if (!blob.value().has_value()) {
        has_joined_ = true;
        return publish_record();
      }
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
    if (is_interrupted()) return interruption();
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
  if (rank_count > static_cast<int>(kRanksMax))
    return invalid_text("record of rank 0", fmt::format("it names {} ranks", rank_count));
  for (int rank = 0; rank < rank_count && !has_taken_part_; ++rank) {
    // join() says so.
    if (clock_.now() >= deadline_ || is_interrupted()) return false;
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
  (void)get(fmt::format("mccl/{}/never", options_.name), left);
}

void Bootstrap::give_notice() {
  const TimeNs now = clock_.now();
  if (now < notice_at_) return;
  notice_at_ = deadline_after(now, now - begin_);
  host_.notice(fmt::format("{} has waited {:.0f} s for {}", options_.title,
                           static_cast<double>(now - begin_) / 1e9, awaited_text()));
}

// Free of requests but on rank 0: all ranks wait at the same time.
std::string Bootstrap::awaited_text() {
  if (options_.rank == 0) return missing_text();
  if (!has_joined_) return "rank 0";
  if (awaits_parent_)
    return fmt::format("rank {} of {}", control_parent(options_.rank), options_.rank_count);
  return "rank 0, whose notices name who is missing";
}

std::string Bootstrap::missing_text() {
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    const Result<std::optional<std::string>> value = get(key_of_rank(rank), 0);
    if (value.is_ok() && !value.value().has_value())
      missing += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  if (count == 0) return {};
  return fmt::format("rank{} {} of {}", count == 1 ? "" : "s", missing, options_.rank_count);
}

Status Bootstrap::missing_ranks(const std::string& missing) const {
  const double seconds = static_cast<double>(options_.timeout_ns) / 1e9;
  return Status(StatusCode::Timeout,
                fmt::format("Timed out after {:.1f} s waiting for {} of {}; were they started, and "
                            "do they reach the store?",
                            seconds, missing, options_.title));
}

Status Bootstrap::end_of_time() {
  if (options_.rank == 0) {
    const std::string missing = missing_text();
    // All have come in this moment: gather() needs no time for them.
    return missing.empty() ? Status::ok() : missing_ranks(missing);
  }
  MCCL_RETURN_IF_ERROR(set(key_of_late(), std::to_string(options_.rank)));
  Result<std::optional<std::string>> blob =
      get(key_of_blob(), std::min(kLastWordNs, options_.timeout_ns / 2));
  if (!blob.is_ok()) return blob.status();
  if (blob.value().has_value()) return error_of(*blob.value());  // ok: the agreement after all
  if (awaits_parent_) return missing_ranks(awaited_text());
  return Status(StatusCode::Timeout,
                fmt::format("Timed out after {:.1f} s: rank 0 of {} has come and does not say who "
                            "is missing; is it stopped?",
                            static_cast<double>(options_.timeout_ns) / 1e9, options_.title));
}

Result<std::optional<RankRecord>> Bootstrap::find_record(int rank) {
  return parse_record(rank, get(key_of_rank(rank), 0));
}

Result<std::optional<RankRecord>> Bootstrap::await_record(int rank) {
  return parse_record(rank, wait_for(key_of_rank(rank)));
}

Status Bootstrap::heard_error() {
  const Result<std::optional<std::string>> blob = get(key_of_blob(), 0);
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

Status Bootstrap::look_around(const std::string& awaited, bool* has_new_meeting) {
  if (is_interrupted()) return interruption();
  MCCL_RETURN_IF_ERROR(host_.failure());
  const Status lost = find_lost();
  if (!lost.is_ok()) {
    // Whoever gives up says so before it goes.
    const Result<std::optional<std::string>> blob = get(key_of_blob(), 0);
    if (blob.is_ok() && blob.value().has_value()) MCCL_RETURN_IF_ERROR(error_of(*blob.value()));
    return lost;
  }
  const Result<std::optional<std::string>> called = get(key_of_meeting(), 0);
  if (!called.is_ok()) return called.status();
  *has_new_meeting = called.value().has_value() && *called.value() != meeting_;
  if (*has_new_meeting && options_.rank == 0)
    return Status(StatusCode::Mismatch,
                  fmt::format("two processes lead {}: this one (pid {}, {}) and another; two have "
                              "rank 0, or the ranks name different members for the group",
                              options_.title, own_.pid, own_.peer.address));
  if (*has_new_meeting) return Status::ok();
  if (awaited != key_of_blob()) MCCL_RETURN_IF_ERROR(heard_error());
  bool is_late = clock_.now() >= deadline_;
  if (!is_late && options_.rank == 0) {
    const Result<std::optional<std::string>> late = get(key_of_late(), 0);
    if (!late.is_ok()) return late.status();
    is_late = late.value().has_value();
  }
  if (is_late) return end_of_time();
  give_notice();
  return Status::ok();
}

Result<std::optional<std::string>> Bootstrap::wait_for(const std::string& key) {
  for (;;) {
    const TimeNs left = deadline_ - clock_.now();
    Result<std::optional<std::string>> value = get(key, std::clamp<TimeNs>(left, 0, kSliceNs));
    if (!value.is_ok() || value.value().has_value()) return value;
    bool has_new_meeting = false;
    MCCL_RETURN_IF_ERROR(look_around(key, &has_new_meeting));
    if (has_new_meeting) return std::optional<std::string>();
  }
}

Status Bootstrap::spread(const Status& error) {
  if (meeting_.empty()) return error;
  is_leaving_ = true;
  const Result<std::optional<std::string>> blob = get(key_of_blob(), 0);
  const bool is_published = blob.is_ok() && blob.value().has_value();
  if (is_published && !error_of(*blob.value()).is_ok()) return error;  // all hear that one
  const std::string text = error.code() == StatusCode::Aborted
                               ? name_of(options_.rank, own_) + ": " + error.message()
                               : error.message();
  // Whether there is an agreement already or comes in this moment: its group is not to wait for us.
  if (is_member_)
    host_.leave(meeting_number_, Status(error.code(), text, error.rank(), error.peer()));
  if (is_published) return error;
  const Json json{{"error", text},
                  {"code", static_cast<int>(error.code())},
                  {"rank", error.rank()},
                  {"peer", error.peer()}};
  if (blob.is_ok()) (void)set(key_of_blob(), json.dump());
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
  Agreement agreement{meeting_number_, std::move(ranks).value(), std::move(table).value()};
  Json blob{{"table", write_plan_table(agreement.table)}, {"ranks", Json::array()}};
  for (const RankRecord& record : agreement.ranks) blob["ranks"].push_back(to_json(record));
  // Whoever has failed meanwhile has said so.
  MCCL_RETURN_IF_ERROR(heard_error());
  MCCL_RETURN_IF_ERROR(set(key_of_blob(), blob.dump()));
  return agreement;
}

Result<Agreement> Bootstrap::parse_blob(const std::string& text) {
  MCCL_RETURN_IF_ERROR(error_of(text));
  Status refusal;
  Result<Agreement> agreement = parse_or_fail("blob of rank 0", [&] {
    const Json blob = Json::parse(text);
    Agreement result;
    result.communicator = meeting_number_;
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
  if (ranks.empty()) return invalid_text("blob of rank 0", "it names no ranks");
  is_member_ = false;
  if (static_cast<int>(ranks.size()) != options_.rank_count ||
      ranks.front().title != options_.title)
    return describe_other_group(static_cast<int>(ranks.size()), ranks.front().title);
  if (!(ranks[static_cast<size_t>(options_.rank)] == own_))
    return Status(StatusCode::Mismatch,
                  fmt::format("rank 0 holds another process as rank {} of {}: two processes have "
                              "the same rank, or one has been started again meanwhile",
                              options_.rank, options_.title));
  is_member_ = true;
  return agreement;
}

Result<Agreement> Bootstrap::follow() {
  for (;;) {
    awaits_parent_ = true;
    const Result<std::optional<RankRecord>> parent = await_record(control_parent(options_.rank));
    if (!parent.is_ok()) return parent.status();
    if (parent.value().has_value()) {
      awaits_parent_ = false;
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
