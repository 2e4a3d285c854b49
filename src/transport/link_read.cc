// The reading half of a link: parse frames, lay payloads where they belong, park what nobody waits
// for. Every number is checked before it is used for anything.
#include <algorithm>
#include <cstring>

#include "transport/link.h"

namespace mccl {
namespace {

// Appends the part [offset, offset + bytes) of the concatenated pieces.
void append_part(const std::vector<iovec>& pieces, size_t offset, size_t bytes,
                 std::vector<iovec>& part) {
  for (const iovec& piece : pieces) {
    if (bytes == 0) return;
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    const size_t length = std::min(bytes, piece.iov_len - offset);
    part.push_back({static_cast<std::byte*>(piece.iov_base) + offset, length});
    bytes -= length;
    offset = 0;
  }
}

Status protocol_error(const std::string& text) {
  return Status(StatusCode::Network,
                "protocol error: " + text + "; the peer runs another version or is not mccl");
}

}  // namespace

bool Link::read() {
  has_large_message_ = false;
  bool has_read = false;
  while (is_readable_ && !is_failed() && wire_ != nullptr) {
    while (!is_failed() && parse()) {
    }
    if (is_failed()) return true;
    if (has_large_message_) return true;
    if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
    if (input_begin_ > 0) {
      std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
      input_end_ -= input_begin_;
      input_begin_ = 0;
    }
    read_pieces_.clear();
    const size_t direct = payload_pieces(read_pieces_);
    read_pieces_.push_back({input_.data() + input_end_, input_.size() - input_end_});
    ++read_calls_;
    Result<size_t> got = wire_->read(read_pieces_);
    if (!got.is_ok()) {
      fail(got.status());
      return true;
    }
    if (got.value() == 0) {
      is_readable_ = false;
      if (write_failure_.is_ok()) return has_read;
      fail(write_failure_);
      return true;
    }
    has_read = true;
    bytes_read_ += got.value();
    const size_t into_payload = std::min(direct, got.value());
    if (into_payload > 0) {
      current_->arrived_bytes_ += into_payload;
      payload_left_ -= into_payload;
      if (payload_left_ == 0) finish_payload();
    }
    input_end_ += got.value() - into_payload;
  }
  return has_read;
}

// Where the wire may put payload bytes directly; returns their number.
size_t Link::payload_pieces(std::vector<iovec>& pieces) {
  if (!is_in_payload_ || current_ == nullptr || input_begin_ != input_end_) return 0;
  RecvStream& stream = *current_;
  if (stream.arriving_.is_in_target) {
    append_part(stream.target_, stream.arrived_bytes_, payload_left_, pieces);
  } else {
    pieces.push_back({stream.arriving_.buffer.data() + stream.arrived_bytes_, payload_left_});
  }
  return payload_left_;
}

// Handles one unit from the input buffer; false when more bytes are needed.
bool Link::parse() {
  const size_t available = input_end_ - input_begin_;
  const std::byte* data = input_.data() + input_begin_;
  if (!is_in_payload_) {
    if (available < sizeof(FrameHeader)) return false;
    std::memcpy(&header_, data, sizeof(header_));
    input_begin_ += sizeof(header_);
    const Status status = begin_frame(header_);
    if (!status.is_ok()) {
      fail(status);
      return true;
    }
    is_in_payload_ = true;
    if (payload_left_ == 0) finish_payload();
    return true;
  }
  if (available == 0) return false;
  const size_t bytes = std::min(available, payload_left_);
  if (current_ != nullptr) {
    RecvStream& stream = *current_;
    if (stream.arriving_.is_in_target) {
      read_pieces_.clear();
      append_part(stream.target_, stream.arrived_bytes_, bytes, read_pieces_);
      for (const iovec& piece : read_pieces_) {
        std::memcpy(piece.iov_base, data, piece.iov_len);
        data += piece.iov_len;
      }
    } else {
      std::memcpy(stream.arriving_.buffer.data() + stream.arrived_bytes_, data, bytes);
    }
    stream.arrived_bytes_ += bytes;
  } else if (!is_skipping_) {
    control_.insert(control_.end(), data, data + bytes);
  }
  input_begin_ += bytes;
  payload_left_ -= bytes;
  if (payload_left_ == 0) finish_payload();
  return true;
}

Status Link::begin_frame(const FrameHeader& header) {
  if (header.magic != kFrameMagic || header.version != kFrameVersion)
    return protocol_error("a frame begins with " + std::to_string(header.magic) + " version " +
                          std::to_string(header.version));
  if (header.payload_bytes > kFramePayloadBytesMax)
    return protocol_error("a frame of " + std::to_string(header.payload_bytes) +
                          " bytes, at most " + std::to_string(kFramePayloadBytesMax) +
                          " are allowed");
  payload_left_ = header.payload_bytes;
  current_ = nullptr;
  is_skipping_ = false;
  control_.clear();
  switch (header.kind) {
    case FrameKind::Data:
      return begin_data(header);
    case FrameKind::Credits:
    case FrameKind::Grants:
    case FrameKind::Leave:
    case FrameKind::Offer:
    case FrameKind::Match:
    case FrameKind::Announce:
    case FrameKind::Probe:
    case FrameKind::Report:
      return Status::ok();
  }
  return protocol_error("a frame of unknown kind " + std::to_string(static_cast<int>(header.kind)));
}

Status Link::begin_data(const FrameHeader& header) {
  if (ended_communicators_.contains(header.communicator)) {
    is_skipping_ = true;
    return Status::ok();
  }
  if (recv_streams_.size() >= kStreamsPerLinkMax)
    return protocol_error("more than " + std::to_string(kStreamsPerLinkMax) + " streams");
  RecvStream& stream = recv_stream(header.communicator, header.channel);
  if (!stream.is_arriving_) {
    if (header.message_bytes > kMessageBytesMax ||
        !stream.allows(header.sequence, header.message_bytes))
      return protocol_error("a message of " + std::to_string(header.message_bytes) +
                            " bytes on channel " + std::to_string(header.channel) +
                            " for which no credit was given");
    listener_.on_message_head(*this, header);
    if (is_failed() || ended_communicators_.contains(header.communicator)) {
      is_skipping_ = true;  // the head did not match: the communicator has just ended here
      return Status::ok();
    }
    stream.is_arriving_ = true;
    stream.arrived_bytes_ = 0;
    stream.arriving_ = InMessage{};
    stream.arriving_.bytes = header.message_bytes;
    stream.arriving_.sequence = header.sequence;
    stream.arriving_.fingerprint = header.fingerprint;
    stream.arriving_.is_in_target = stream.has_target_ && stream.parked_.empty() &&
                                    stream.target_bytes_ == header.message_bytes &&
                                    stream.owners_.front().sequence == header.sequence;
    if (!stream.arriving_.is_in_target) stream.arriving_.buffer = pool_.take(header.message_bytes);
  } else if (header.message_bytes != stream.arriving_.bytes ||
             header.sequence != stream.arriving_.sequence) {
    return protocol_error("a frame of another message inside a message");
  }
  if (header.payload_bytes > stream.arriving_.bytes - stream.arrived_bytes_)
    return protocol_error("more bytes than the message announced");
  if (header.payload_bytes == 0 && stream.arriving_.bytes != 0)
    return protocol_error("an empty frame inside a message");
  current_ = &stream;
  return Status::ok();
}

void Link::finish_payload() {
  is_in_payload_ = false;
  if (header_.kind == FrameKind::Data) {
    if (current_ == nullptr) return;
    RecvStream& stream = *current_;
    current_ = nullptr;
    if (stream.arrived_bytes_ == stream.arriving_.bytes) finish_message(stream);
    return;
  }
  const Status status = finish_control();
  if (!status.is_ok()) fail(status);
}

void Link::finish_message(RecvStream& stream) {
  stream.is_arriving_ = false;
  if (stream.arriving_.bytes > kSmallMessageBytesMax) has_large_message_ = true;
  if (stream.arriving_.is_in_target) stream.has_target_ = false;
  stream.parked_.push_back(std::move(stream.arriving_));
  if (!stream.owners_.empty()) stream.owners_.front().owner->wake();
}

void Link::refuse(const std::string& text) {
  fail(protocol_error(text));
}

Status Link::finish_control() {
  switch (header_.kind) {
    case FrameKind::Credits:
      return finish_credits();
    case FrameKind::Grants:
      return finish_grants();
    case FrameKind::Leave:
      return finish_leave();
    case FrameKind::Offer:
      return finish_offer();
    case FrameKind::Match:
      return finish_match();
    case FrameKind::Announce:
      return finish_announcement();
    case FrameKind::Probe:
      return finish_probe();
    case FrameKind::Report:
      return finish_report();
    case FrameKind::Data:
      break;
  }
  return Status(StatusCode::Internal, "a data frame among control frames");
}

Status Link::finish_credits() {
  if (control_.size() % sizeof(CreditEntry) != 0)
    return protocol_error("a credit frame of odd length");
  for (size_t at = 0; at < control_.size(); at += sizeof(CreditEntry)) {
    CreditEntry entry;
    std::memcpy(&entry, control_.data() + at, sizeof(entry));
    const auto found = send_streams_.find({entry.communicator, entry.channel});
    if (found == send_streams_.end()) continue;  // the communicator has ended here
    SendStream& stream = *found->second;
    if (static_cast<int32_t>(stream.queued_ - entry.taken) < 0)
      return protocol_error("credit for messages that were not sent");
    if (static_cast<int32_t>(entry.taken - stream.taken_) < 0)
      return protocol_error("credit that goes back");
    stream.on_credit(entry.taken);
  }
  return Status::ok();
}

Status Link::finish_grants() {
  if (control_.size() % sizeof(GrantEntry) != 0)
    return protocol_error("a grant frame of odd length");
  for (size_t at = 0; at < control_.size(); at += sizeof(GrantEntry)) {
    GrantEntry entry;
    std::memcpy(&entry, control_.data() + at, sizeof(entry));
    if (ended_communicators_.contains(entry.communicator)) continue;
    if (send_streams_.size() >= kStreamsPerLinkMax)
      return protocol_error("more than " + std::to_string(kStreamsPerLinkMax) + " streams");
    send_stream(entry.communicator, entry.channel)
        .on_grant({entry.sequence, entry.messages, entry.bytes_max});
  }
  return Status::ok();
}

Status Link::finish_leave() {
  if (ended_communicators_.erase(header_.communicator) > 0) return Status::ok();
  left_communicators_.insert(header_.communicator);
  const std::string text(reinterpret_cast<const char*>(control_.data()), control_.size());
  const bool is_known = header_.sequence <= static_cast<uint64_t>(StatusCode::Internal);
  const StatusCode code =
      is_known ? static_cast<StatusCode>(header_.sequence) : StatusCode::Internal;
  const auto rank_of = [](uint32_t number) {
    return number > kRanksMax ? -1 : static_cast<int>(number) - 1;
  };
  listener_.on_leave(*this, header_.communicator,
                     code == StatusCode::Ok ? Status::ok()
                                            : Status(code, text, rank_of(header_.message_bytes),
                                                     rank_of(header_.channel)));
  return Status::ok();
}

Status Link::finish_offer() {
  OfferEntry entry;
  if (control_.size() < sizeof(entry)) return protocol_error("an offer frame that is too short");
  std::memcpy(&entry, control_.data(), sizeof(entry));
  const std::span<const std::byte> message(control_.data() + sizeof(entry),
                                           control_.size() - sizeof(entry));
  const size_t expected = entry.is_eager == 0 ? 0 : entry.bytes;
  if (expected > kEagerBytesMax || message.size() != expected)
    return protocol_error("an offer of " + std::to_string(entry.bytes) + " bytes that carries " +
                          std::to_string(message.size()));
  if (!ended_communicators_.contains(header_.communicator))
    listener_.on_offer(*this, header_.communicator, header_.sequence, entry, message);
  return Status::ok();
}

Status Link::finish_match() {
  MatchEntry entry;
  if (control_.size() != sizeof(entry)) return protocol_error("a match frame of odd length");
  std::memcpy(&entry, control_.data(), sizeof(entry));
  if (!ended_communicators_.contains(header_.communicator))
    listener_.on_match(*this, header_.communicator, header_.sequence, entry);
  return Status::ok();
}

Status Link::finish_announcement() {
  if (control_.size() != header_.fingerprint.size())
    return protocol_error("an announcement of odd length");
  std::memcpy(header_.fingerprint.data(), control_.data(), header_.fingerprint.size());
  if (!ended_communicators_.contains(header_.communicator))
    listener_.on_message_head(*this, header_);
  return Status::ok();
}

Status Link::finish_probe() {
  if (control_.size() != header_.fingerprint.size()) return protocol_error("a probe of odd length");
  std::memcpy(header_.fingerprint.data(), control_.data(), header_.fingerprint.size());
  if (!ended_communicators_.contains(header_.communicator)) listener_.on_probe(*this, header_);
  return Status::ok();
}

Status Link::finish_report() {
  if (control_.size() > kReportBytesMax)
    return protocol_error("a report of " + std::to_string(control_.size()) + " bytes");
  if (!ended_communicators_.contains(header_.communicator))
    listener_.on_report(*this, header_.communicator, header_.sequence, control_);
  return Status::ok();
}

}  // namespace mccl
