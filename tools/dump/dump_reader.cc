#include "dump/dump_reader.h"

#include <nlohmann/json.hpp>

namespace mccl {
namespace {

using Json = nlohmann::json;

constexpr int kFormatVersion = 1;

const Json& field(const Json& json, const char* name) {
  static const Json none;
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

// What is missing, or of another type, is empty: a report on half a dump is better than none.
std::string text_of(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

template <typename Number>
Number number_of(const Json& json, const char* name, Number missing) {
  const Json& value = field(json, name);
  return value.is_number_integer() ? value.get<Number>() : missing;
}

template <typename Item, typename Read>
std::vector<Item> list_of(const Json& json, const char* name, const Read& read) {
  std::vector<Item> items;
  const Json& list = field(json, name);
  if (!list.is_array()) return items;
  for (const Json& item : list)
    if (item.is_object()) items.push_back(read(item));
  return items;
}

DumpedCall read_call(const Json& json) {
  DumpedCall call{.sequence = number_of<uint64_t>(json, "sequence", 0),
                  .call = text_of(json, "call"),
                  .state = text_of(json, "state"),
                  .failed_in = text_of(json, "failed_in"),
                  .waits = text_of(json, "waits"),
                  .waits_for = {}};
  const Json& ranks = field(json, "waits_for");
  if (ranks.is_array())
    for (const Json& rank : ranks)
      if (rank.is_number_integer()) call.waits_for.push_back(rank.get<int>());
  return call;
}

DumpedMessage read_message(const Json& json) {
  return {.number = number_of<uint64_t>(json, "number", 0),
          .is_send = text_of(json, "kind") == "send",
          .peer = number_of(json, "peer", -1),
          .tag = number_of<int64_t>(json, "tag", 0),
          .state = text_of(json, "state"),
          .failed_in = text_of(json, "failed_in")};
}

DumpedMember read_member(const Json& json) {
  return {.host = text_of(json, "host"),
          .pid = number_of<int64_t>(json, "pid", 0),
          .process = text_of(json, "process")};
}

DumpedCommunicator read_communicator(const Json& json) {
  DumpedCommunicator communicator{
      .id = text_of(json, "id"),
      .name = text_of(json, "name"),
      .rank = number_of(json, "rank", -1),
      .members = list_of<DumpedMember>(json, "members", &read_member),
      .posted_count = number_of<uint64_t>(json, "operations_posted", 0),
      .completed_count = number_of<uint64_t>(json, "operations_completed", 0),
      .failure = {},
      .held_up_by = text_of(json, "held_up_by"),
      .calls = list_of<DumpedCall>(json, "operations", &read_call),
      .messages = list_of<DumpedMessage>(json, "messages", &read_message)};
  const Json& failure = field(json, "failure");
  if (failure.is_object())
    communicator.failure = text_of(failure, "code") + ": " + text_of(failure, "message");
  return communicator;
}

}  // namespace

Result<DumpedProcess> parse_dump(const std::string& text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || text_of(json, "format") != "mccl dump")
    return Status(StatusCode::InvalidArgument, name + ": is no dump of mccl");
  const int version = number_of(json, "format_version", 0);
  if (version != kFormatVersion)
    return Status(StatusCode::InvalidArgument,
                  name + ": has version " + std::to_string(version) + " of the format, " +
                      std::to_string(kFormatVersion) + " is read; use the mccl that wrote it");
  DumpedProcess process{
      .process = text_of(json, "process"),
      .host = text_of(json, "host"),
      .pid = number_of<int64_t>(json, "pid", 0),
      .time = text_of(json, "time"),
      .communicators = list_of<DumpedCommunicator>(json, "communicators", &read_communicator)};
  for (const DumpedCommunicator& communicator : process.communicators)
    if (communicator.rank < 0 || communicator.rank >= static_cast<int>(communicator.members.size()))
      return Status(StatusCode::InvalidArgument,
                    name + ": communicator " + communicator.id + " has " +
                        std::to_string(communicator.members.size()) + " members and is of rank " +
                        std::to_string(communicator.rank));
  return process;
}

}  // namespace mccl
