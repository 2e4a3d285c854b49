#include "runtime/flight_recorder.h"

#include <algorithm>
#include <array>

namespace mccl {
namespace {

template <typename Record>
std::vector<Record> list_records(const std::vector<Record>& ring, uint64_t count) {
  std::vector<Record> records;
  const uint64_t kept = std::min<uint64_t>(count, ring.size());
  records.reserve(kept);
  for (uint64_t number = count - kept; number < count; ++number)
    records.push_back(ring[number % ring.size()]);
  return records;
}

}  // namespace

std::string_view call_state_name(CallState state) {
  constexpr std::array<std::string_view, 6> kNames = {
      "waits for memory", "waits for device", "waits for peer", "running", "complete", "failed"};
  return kNames[static_cast<size_t>(state)];
}

uint64_t FlightRecorder::post_message(const MessageRecord& record) {
  if (messages_.empty()) messages_.resize(kRecorded);
  MessageRecord& kept = messages_[message_count_ % kRecorded];
  kept = record;
  kept.sequence = message_count_;
  return message_count_++;
}

std::vector<OperationRecord> FlightRecorder::operations() const {
  return list_records(operations_, operation_count_);
}

std::vector<MessageRecord> FlightRecorder::messages() const {
  return list_records(messages_, message_count_);
}

}  // namespace mccl
