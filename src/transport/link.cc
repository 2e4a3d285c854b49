// What a link is made of, apart from moving bytes: streams, credits, and the end of communicators.
// Writing is in link_write.cc, reading in link_read.cc.
#include "transport/link.h"

#include <algorithm>
#include <utility>

namespace mccl {
namespace {

// Header bytes are copied out of this buffer, payloads of large messages are not; a small message
// arrives whole with its header.
constexpr size_t kInputBytes = 16 * 1024;

}  // namespace

Link::Link(uint64_t peer_process, LinkListener& listener, BufferPool& pool, LinkWork& work,
           size_t index)
    : peer_process_(peer_process),
      listener_(listener),
      pool_(pool),
      work_(work),
      index_(index),
      input_(kInputBytes) {}

Link::~Link() = default;

void Link::attach(std::unique_ptr<Wire> wire) {
  MCCL_CHECK(wire_ == nullptr);
  wire_ = std::move(wire);
  set_readable();
  is_write_blocked_ = false;
  note_output();
}

bool Link::check_peer(TimeNs now) {
  if (wire_ == nullptr || is_failed() || wire_->check_peer(now).is_ok()) return true;
  set_readable();
  return false;
}

SendStream& Link::send_stream(uint64_t communicator, uint32_t channel) {
  std::unique_ptr<SendStream>& stream = send_streams_[{communicator, channel}];
  if (stream == nullptr) stream = std::make_unique<SendStream>(*this, communicator, channel);
  return *stream;
}

RecvStream& Link::recv_stream(uint64_t communicator, uint32_t channel) {
  std::unique_ptr<RecvStream>& stream = recv_streams_[{communicator, channel}];
  if (stream == nullptr) stream = std::make_unique<RecvStream>(*this, communicator, channel);
  return *stream;
}

void Link::make_ready(SendStream& stream) {
  stream.is_ready_ = true;
  const size_t next = stream.framed_ - stream.captured_;
  const bool is_small = stream.messages_[next].bytes_left <= kSmallMessageBytesMax;
  (is_small ? ready_small_ : ready_large_).push_back(&stream);
  note_output();
}

void Link::add_credit(RecvStream& stream, bool is_urgent) {
  has_urgent_credit_ |= is_urgent;
  note_output();
  if (stream.is_credit_pending_) return;
  stream.is_credit_pending_ = true;
  credits_.push_back(&stream);
}

bool Link::has_output() const {
  return wire_ != nullptr && !is_failed() && (has_due_output() || !credits_.empty());
}

bool Link::has_due_output() const {
  if (!is_opening() || is_failed()) return false;
  return frame_count_ > 0 || !ready_small_.empty() || !ready_large_.empty() || has_urgent_credit_ ||
         !grants_.empty() || !leaves_.empty() || !controls_.empty();
}

void Link::send_leave(uint64_t communicator, const Status& reason) {
  leaves_.push_back({communicator, reason});
  note_output();
}

void Link::add_control(FrameKind kind, uint64_t communicator, uint64_t sequence, const void* entry,
                       size_t bytes, std::span<const std::byte> message) {
  if (is_failed()) return;
  Control& control = controls_.emplace_back(Control{kind, communicator, sequence, {}});
  control.payload.reserve(bytes + message.size());
  const auto* first = static_cast<const std::byte*>(entry);
  if (bytes > 0) control.payload.insert(control.payload.end(), first, first + bytes);
  control.payload.insert(control.payload.end(), message.begin(), message.end());
  note_output();
}

void Link::send_offer(uint64_t communicator, uint64_t offer, const OfferEntry& entry,
                      std::span<const std::byte> message) {
  add_control(FrameKind::Offer, communicator, offer, &entry, sizeof(entry), message);
}

void Link::send_announcement(uint64_t communicator, uint64_t sequence,
                             const Fingerprint& fingerprint) {
  add_control(FrameKind::Announce, communicator, sequence, fingerprint.data(), fingerprint.size(),
              {});
}

void Link::send_probe(uint64_t communicator, uint64_t sequence, const Fingerprint& fingerprint) {
  add_control(FrameKind::Probe, communicator, sequence, fingerprint.data(), fingerprint.size(), {});
}

void Link::send_report(uint64_t communicator, uint64_t sequence,
                       std::span<const std::byte> report) {
  MCCL_CHECK(report.size() <= kReportBytesMax);
  add_control(FrameKind::Report, communicator, sequence, nullptr, 0, report);
}

void Link::send_match(uint64_t communicator, uint64_t offer, const MatchEntry& entry) {
  add_control(FrameKind::Match, communicator, offer, &entry, sizeof(entry), {});
}

void Link::end_communicator(uint64_t communicator) {
  if (left_communicators_.erase(communicator) == 0) ended_communicators_.insert(communicator);
  for (size_t index = 0; index < frame_count_; ++index) {
    OutFrame& frame = *frames_[(frame_head_ + index) % frames_.size()];
    if (frame.stream == nullptr || frame.stream->communicator_ != communicator) continue;
    // User memory goes away: what is left of the payload moves into the frame's own storage.
    const size_t first_payload = std::max(frame.first, size_t{1});
    size_t bytes = 0;
    for (size_t piece = first_payload; piece < frame.pieces.size(); ++piece)
      bytes += frame.pieces[piece].iov_len;
    frame.storage.clear();
    frame.storage.reserve(bytes);
    for (size_t piece = first_payload; piece < frame.pieces.size(); ++piece) {
      const auto* data = static_cast<const std::byte*>(frame.pieces[piece].iov_base);
      frame.storage.insert(frame.storage.end(), data, data + frame.pieces[piece].iov_len);
    }
    frame.pieces.resize(first_payload);
    if (bytes > 0) frame.pieces.push_back({frame.storage.data(), bytes});
    frame.stream = nullptr;
  }
  const auto belongs = [communicator](const auto* stream) {
    return stream->communicator_ == communicator;
  };
  std::erase_if(ready_small_, belongs);
  std::erase_if(ready_large_, belongs);
  std::erase_if(credits_, belongs);
  has_urgent_credit_ = has_urgent_credit_ && !credits_.empty();
  std::erase_if(grants_, [communicator](const GrantEntry& entry) {
    return entry.communicator == communicator;
  });
  if (current_ != nullptr && current_->communicator_ == communicator) {
    current_ = nullptr;
    is_skipping_ = true;
  }
  std::erase_if(send_streams_,
                [&](const auto& item) { return item.first.communicator == communicator; });
  std::erase_if(recv_streams_,
                [&](const auto& item) { return item.first.communicator == communicator; });
}

void Link::close() {
  if (wire_ != nullptr) wire_->close();
}

void Link::fail(const Status& status) {
  if (is_failed()) return;
  failure_ = status;
  close();
  listener_.on_link_failed(*this, failure_);
}

}  // namespace mccl
