// The document: docs/dumps.md has its fields. Lines are kept for people: what is a list of things
// has a line per thing, so that grep finds an operation. Tested by test/unit/comm/dump_test.cc.
#include "comm/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/wall_time.h"
#include "comm/fingerprint.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

// JSON's numbers are doubles to many readers: 64-bit names are text.
std::string write_id(uint64_t id) {
  return fmt::format("{:016x}", id);
}

Json write_time(TimeNs time) {
  return time == kNever ? Json(nullptr) : Json(time);
}

Json write_status(const Status& status) {
  if (status.is_ok()) return nullptr;
  Json json = {{"code", status_code_name(status.code())}, {"message", status.message()}};
  if (status.rank() >= 0) json["rank"] = status.rank();
  if (status.peer() >= 0) json["peer"] = status.peer();
  return json;
}

std::map<uint64_t, int> number_ranks(const CommunicatorDump& communicator) {
  std::map<uint64_t, int> rank_of_process;
  for (size_t rank = 0; rank < communicator.ranks.size(); ++rank)
    rank_of_process[communicator.ranks[rank].peer.process_id] = static_cast<int>(rank);
  return rank_of_process;
}

void add_record(const CallRecord& record, Json& json) {
  json["bytes"] = record.bytes;
  json["state"] = call_state_name(record.state);
  if (record.state == CallState::Failed) json["failed_in"] = call_state_name(record.failed_in);
  json["staged"] = record.is_staged;
  json["device"] = record.has_device;
  json["posted_ns"] = write_time(record.posted_at);
  json["started_ns"] = write_time(record.started_at);
  json["ended_ns"] = write_time(record.ended_at);
}

Json write_operations(const CommunicatorDump& communicator) {
  const std::map<uint64_t, int> rank_of_process = number_ranks(communicator);
  Json list = Json::array();
  for (const OperationRecord& record : communicator.operations) {
    Json json = {{"sequence", record.sequence}, {"call", describe_call(record.fingerprint)}};
    if (record.plan < communicator.programs.size())
      json["program"] = communicator.programs[record.plan].program;
    json["in_place"] = record.is_in_place;
    add_record(record, json);
    const auto wait =
        std::find_if(communicator.waits.begin(), communicator.waits.end(),
                     [&](const OperationWait& one) { return one.sequence == record.sequence; });
    if (wait != communicator.waits.end()) {
      json["waits"] = wait->text;
      json["waits_for"] = Json::array();
      for (const uint64_t process : wait->processes)
        if (const auto found = rank_of_process.find(process); found != rank_of_process.end())
          json["waits_for"].push_back(found->second);
    }
    if (const auto peers = communicator.peers.find(record.sequence);
        peers != communicator.peers.end())
      json["peers"] = peers->second;
    list.push_back(std::move(json));
  }
  return list;
}

Json write_messages(const CommunicatorDump& communicator) {
  const std::map<uint64_t, int> rank_of_process = number_ranks(communicator);
  Json list = Json::array();
  for (const MessageRecord& record : communicator.messages) {
    const auto peer = rank_of_process.find(record.peer_process);
    Json json = {{"number", record.sequence},
                 {"kind", record.is_send ? "send" : "recv"},
                 {"peer", peer == rank_of_process.end() ? Json(nullptr) : Json(peer->second)},
                 {"tag", record.tag},
                 {"dtype", dtype_name(record.dtype)}};
    add_record(record, json);
    list.push_back(std::move(json));
  }
  return list;
}

Json write_members(const CommunicatorDump& communicator) {
  Json list = Json::array();
  for (size_t rank = 0; rank < communicator.ranks.size(); ++rank) {
    const RankRecord& record = communicator.ranks[rank];
    list.push_back({{"rank", rank},
                    {"host", record.host_name},
                    {"pid", record.pid},
                    {"address", record.peer.address},
                    {"process", write_id(record.peer.process_id)},
                    {"has_left", communicator.left.contains(record.peer.process_id)}});
  }
  return list;
}

Json write_communicator(const CommunicatorDump& communicator) {
  Json programs = Json::array();
  for (const ProgramCount& count : communicator.programs)
    programs.push_back({{"program", count.program},
                        {"collective", collective_name(count.collective)},
                        {"calls", count.calls},
                        {"bytes", count.bytes},
                        {"reason", count.reason}});
  return {{"id", write_id(communicator.id)},
          {"name", communicator.title},
          {"rank", communicator.rank},
          {"rank_count", communicator.ranks.size()},
          {"operations_posted", communicator.posted_count},
          {"operations_completed", communicator.completed_count},
          {"failure", write_status(communicator.failure)},
          {"held_up_by", communicator.held_up_by},
          {"members", write_members(communicator)},
          {"programs", std::move(programs)},
          {"operations", write_operations(communicator)},
          {"messages", write_messages(communicator)}};
}

Json write_settings(const Config& config) {
  Json list = Json::array();
  for (const SettingRow& row : settings())
    list.push_back({{"name", row.name},
                    {"value", write_shown_value(row, config)},
                    {"is_default", row.write(config) == row.write(Config{})}});
  return list;
}

Json write_links(const ProcessDump& dump) {
  Json list = Json::array();
  for (const LinkDump& link : dump.links)
    list.push_back({{"process", write_id(link.peer_process)},
                    {"peer", link.peer_name},
                    {"bytes_sent", link.bytes_sent},
                    {"bytes_received", link.bytes_received},
                    {"is_connected", link.is_connected},
                    {"failure", link.failure.is_ok() ? "" : link.failure.to_string()}});
  return list;
}

bool is_list_of_objects(const Json& json) {
  return json.is_array() && !json.empty() && json.front().is_object();
}

// Objects with a list of objects in them have a line per field, lists of objects a line per object;
// everything else is one line.
void append(const Json& json, size_t indent, std::string& text) {
  const std::string margin = "\n" + std::string(indent + 1, ' ');
  const char* separator = "";
  if (is_list_of_objects(json)) {
    text += '[';
    for (const Json& item : json) {
      text += separator + margin;
      append(item, indent + 1, text);
      separator = ",";
    }
    text += "\n" + std::string(indent, ' ') + "]";
  } else if (json.is_object() && std::any_of(json.begin(), json.end(), &is_list_of_objects)) {
    text += '{';
    for (const auto& [key, value] : json.items()) {
      text += separator + margin + "\"" + key + "\": ";
      append(value, indent + 1, text);
      separator = ",";
    }
    text += "\n" + std::string(indent, ' ') + "}";
  } else {
    // Host names and words of others may be no UTF-8.
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

std::string write_dump(const ProcessDump& dump) {
  Json communicators = Json::array();
  for (const CommunicatorDump& communicator : dump.communicators)
    communicators.push_back(write_communicator(communicator));
  const Json json = {
      {"format", "mccl dump"},
      {"format_version", kFormatVersion},
      {"version", dump.process.version},
      {"cause", dump.cause},
      {"host", dump.process.host_name},
      {"pid", dump.process.pid},
      {"rank", dump.communicators.empty() ? Json(nullptr) : Json(dump.communicators.front().rank)},
      {"address", dump.process.peer.address},
      {"process", write_id(dump.process.peer.process_id)},
      {"time", write_wall_time(dump.wall_time)},
      {"monotonic_ns", dump.now},
      {"settings", write_settings(dump.config)},
      {"communicators", std::move(communicators)},
      {"links", write_links(dump)}};
  std::string text;
  append(json, 0, text);
  return text + "\n";
}

}  // namespace mccl
