#include "transport/stream.h"

#include "transport/link.h"

namespace mccl {

const std::string& SendStream::peer_name() const {
  return link_->peer_name();
}
const std::string& RecvStream::peer_name() const {
  return link_->peer_name();
}

void SendStream::pass_on() {
  MCCL_CHECK(!owners_.empty());
  first_open_sequence_ = owners_.front().sequence + 1;
  owners_.pop_front();
  while (!grants_.empty() && grants_.front().sequence < first_open_sequence_) grants_.pop_front();
  wake_owner();
}

bool SendStream::has_credit(size_t bytes) const {
  const uint32_t outstanding = queued_ - taken_;
  if (bytes <= kStandingMessageBytesMax && outstanding < kStandingMessages) return true;
  if (grants_.empty() || owners_.empty()) return false;
  const Grant& grant = grants_.front();
  return grant.sequence == owners_.front().sequence && bytes <= grant.bytes_max &&
         outstanding < grant.messages;
}

bool SendStream::is_too_long(size_t bytes) const {
  if (bytes <= kStandingMessageBytesMax || grants_.empty() || owners_.empty()) return false;
  const Grant& grant = grants_.front();
  return grant.sequence == owners_.front().sequence && bytes > grant.bytes_max;
}

void SendStream::announce(const Fingerprint& fingerprint) {
  link_->send_announcement(communicator_, owners_.front().sequence, fingerprint);
}

uint32_t SendStream::post(std::span<const iovec> pieces, const Fingerprint& fingerprint,
                          PooledBuffer owned) {
  MCCL_CHECK(!owners_.empty());
  Message& message = messages_.push();
  message.pieces.clear();
  message.first_piece = 0;
  message.bytes = 0;
  for (const iovec& piece : pieces) {
    if (piece.iov_len == 0) continue;
    message.pieces.push_back(piece);
    message.bytes += piece.iov_len;
  }
  message.bytes_left = message.bytes;
  message.sequence = owners_.front().sequence;
  message.fingerprint = fingerprint;
  message.owned = std::move(owned);
  ++queued_;
  if (!is_ready_) link_->make_ready(*this);
  return queued_;
}

void SendStream::on_credit(uint32_t taken) {
  taken_ = taken;
  wake_owner();
}

void SendStream::on_grant(const Grant& grant) {
  // The operation may have done with its standing credit before the grant came.
  if (grant.sequence < first_open_sequence_) return;
  grants_.push_back(grant);
  wake_owner();
}

void SendStream::on_captured() {
  ++captured_;
  messages_.front().owned = PooledBuffer();
  messages_.pop();
  for (size_t index = 0; index < watchers_.size();) {
    if (!is_captured(watchers_[index].position)) {
      ++index;
      continue;
    }
    StreamOwner* owner = watchers_[index].owner;
    watchers_[index] = watchers_.back();
    watchers_.pop_back();
    owner->wake();
  }
}

void RecvStream::add_owner(StreamOwner* owner, uint64_t sequence, uint32_t messages,
                           size_t bytes_max) {
  MCCL_CHECK_LE(bytes_max, kMessageBytesMax);
  owners_.push_back({owner, sequence});
  if (bytes_max <= kStandingMessageBytesMax && messages <= kStandingMessages) return;
  const Grant grant{sequence, messages, static_cast<uint32_t>(bytes_max)};
  grants_.push_back(grant);
  link_->add_grant({.communicator = communicator_,
                    .sequence = sequence,
                    .channel = channel_,
                    .messages = messages,
                    .bytes_max = grant.bytes_max});
}

void RecvStream::pass_on() {
  MCCL_CHECK(!owners_.empty());
  const uint64_t finished = owners_.front().sequence;
  owners_.pop_front();
  while (!grants_.empty() && grants_.front().sequence <= finished) grants_.pop_front();
  if (!owners_.empty()) owners_.front().owner->wake();
}

InMessage RecvStream::take(bool more_follow) {
  MCCL_CHECK(has_message());
  InMessage message = std::move(parked_.front());
  parked_.pop_front();
  has_target_ = false;
  ++taken_;
  link_->add_credit(*this, more_follow && message.bytes > kSmallMessageBytesMax);
  return message;
}

void RecvStream::post_target(std::span<const iovec> pieces, size_t bytes) {
  target_.assign(pieces.begin(), pieces.end());
  target_bytes_ = bytes;
  has_target_ = true;
}

bool RecvStream::allows(uint64_t sequence, size_t bytes) const {
  const size_t parked = parked_.size();
  if (bytes <= kStandingMessageBytesMax && parked < kStandingMessages) return true;
  for (const Grant& grant : grants_)
    if (grant.sequence == sequence) return bytes <= grant.bytes_max && parked < grant.messages;
  return false;
}

}  // namespace mccl
