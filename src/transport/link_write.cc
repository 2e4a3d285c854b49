// The writing half of a link: choose frames, hand them to the wire in as few calls as possible, and
// tell streams which messages have left memory.
#include <algorithm>
#include <cstring>

#include "transport/link.h"

namespace mccl {
namespace {

// One writev: enough for 256 KiB of 64-KiB pieces and their headers, below every IOV_MAX.
constexpr size_t kWritePiecesMax = 64;
constexpr size_t kFramesMax = 32;

}  // namespace

Link::OutFrame& Link::next_frame() {
  if (frame_count_ == frames_.size()) {
    // Grow by rebuilding the ring in order; happens a few times in a link's life.
    std::vector<std::unique_ptr<OutFrame>> grown;
    grown.reserve(frames_.size() + 8);
    for (size_t index = 0; index < frames_.size(); ++index)
      grown.push_back(std::move(frames_[(frame_head_ + index) % frames_.size()]));
    while (grown.size() < frames_.size() + 8) grown.push_back(std::make_unique<OutFrame>());
    frames_ = std::move(grown);
    frame_head_ = 0;
  }
  OutFrame& frame = *frames_[(frame_head_ + frame_count_) % frames_.size()];
  ++frame_count_;
  frame.header = FrameHeader{};
  frame.pieces.clear();
  frame.first = 0;
  frame.stream = nullptr;
  frame.ends_message = false;
  return frame;
}

void Link::add_control_frame(FrameKind kind, const void* payload, size_t bytes) {
  OutFrame& frame = next_frame();
  frame.header.kind = kind;
  frame.header.payload_bytes = static_cast<uint32_t>(bytes);
  frame.storage.resize(bytes);
  if (bytes > 0) std::memcpy(frame.storage.data(), payload, bytes);
  frame.pieces.push_back({&frame.header, sizeof(frame.header)});
  if (bytes > 0) frame.pieces.push_back({frame.storage.data(), bytes});
  frame_bytes_ += sizeof(frame.header) + bytes;
}

void Link::fill_controls() {
  while (!controls_.empty() && frame_count_ < kFramesMax) {
    Control& control = controls_.front();
    add_control_frame(control.kind, nullptr, 0);
    OutFrame& frame = *frames_[(frame_head_ + frame_count_ - 1) % frames_.size()];
    frame.header.communicator = control.communicator;
    frame.header.sequence = control.sequence;
    frame.header.payload_bytes = static_cast<uint32_t>(control.payload.size());
    frame.storage.swap(control.payload);
    if (!frame.storage.empty())
      frame.pieces.push_back({frame.storage.data(), frame.storage.size()});
    frame_bytes_ += frame.storage.size();
    controls_.pop_front();
  }
}

void Link::fill(bool is_idle) {
  constexpr size_t kCreditsPerFrame = kFramePayloadBytesMax / sizeof(CreditEntry);
  constexpr size_t kGrantsPerFrame = kFramePayloadBytesMax / sizeof(GrantEntry);
  if (!grants_.empty()) {
    for (size_t begin = 0; begin < grants_.size(); begin += kGrantsPerFrame) {
      const size_t count = std::min(kGrantsPerFrame, grants_.size() - begin);
      add_control_frame(FrameKind::Grants, &grants_[begin], count * sizeof(GrantEntry));
    }
    grants_.clear();
  }
  const bool has_data = !ready_small_.empty() || !ready_large_.empty();
  if (!credits_.empty() && (is_idle || has_urgent_credit_ || has_data)) {
    credit_entries_.clear();
    for (RecvStream* stream : credits_) {
      stream->is_credit_pending_ = false;
      credit_entries_.push_back({stream->communicator_, stream->channel_, stream->taken_});
    }
    for (size_t begin = 0; begin < credit_entries_.size(); begin += kCreditsPerFrame) {
      const size_t count = std::min(kCreditsPerFrame, credit_entries_.size() - begin);
      add_control_frame(FrameKind::Credits, &credit_entries_[begin], count * sizeof(CreditEntry));
    }
    credits_.clear();
    has_urgent_credit_ = false;
  }
  if (!controls_.empty()) fill_controls();
  while (frame_bytes_ < kFramePayloadBytesMax && frame_count_ < kFramesMax &&
         (!ready_small_.empty() || !ready_large_.empty())) {
    std::deque<SendStream*>& ready = ready_small_.empty() ? ready_large_ : ready_small_;
    SendStream* stream = ready.front();
    ready.pop_front();
    frame_message(*stream);
  }
  if (!leaves_.empty() && controls_.empty()) fill_leaves();
}

// A leave goes behind all data of its communicator, which may complete operations at the peer, and
// behind nobody else's.
void Link::fill_leaves() {
  const auto is_of = [](const std::deque<SendStream*>& ready, uint64_t communicator) {
    return std::any_of(ready.begin(), ready.end(), [communicator](const SendStream* stream) {
      return stream->communicator_ == communicator;
    });
  };
  std::erase_if(leaves_, [&](const Leave& leave) {
    if (is_of(ready_small_, leave.communicator) || is_of(ready_large_, leave.communicator))
      return false;
    const std::string& text = leave.reason.message();
    const size_t bytes = std::min(text.size(), size_t{4096});
    add_control_frame(FrameKind::Leave, text.data(), bytes);
    OutFrame& frame = *frames_[(frame_head_ + frame_count_ - 1) % frames_.size()];
    frame.header.communicator = leave.communicator;
    frame.header.sequence = static_cast<uint64_t>(leave.reason.code());
    frame.header.channel = static_cast<uint32_t>(leave.reason.peer() + 1);
    frame.header.message_bytes = static_cast<uint32_t>(leave.reason.rank() + 1);
    return true;
  });
}

void Link::frame_message(SendStream& stream) {
  const size_t next = stream.framed_ - stream.captured_;
  SendStream::Message& message = stream.messages_[next];
  OutFrame& frame = next_frame();
  const size_t payload = std::min(message.bytes_left, kFramePayloadBytesMax);
  frame.header.kind = FrameKind::Data;
  frame.header.payload_bytes = static_cast<uint32_t>(payload);
  frame.header.communicator = stream.communicator_;
  frame.header.channel = stream.channel_;
  frame.header.message_bytes = static_cast<uint32_t>(message.bytes);
  frame.header.sequence = message.sequence;
  frame.header.fingerprint = message.fingerprint;
  frame.stream = &stream;
  frame.pieces.push_back({&frame.header, sizeof(frame.header)});
  size_t left = payload;
  while (left > 0) {
    iovec& piece = message.pieces[message.first_piece];
    const size_t bytes = std::min(left, piece.iov_len);
    frame.pieces.push_back({piece.iov_base, bytes});
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + bytes;
    piece.iov_len -= bytes;
    if (piece.iov_len == 0) ++message.first_piece;
    left -= bytes;
  }
  message.bytes_left -= payload;
  frame.ends_message = message.bytes_left == 0;
  frame_bytes_ += sizeof(frame.header) + payload;
  if (frame.ends_message) ++stream.framed_;
  stream.is_ready_ = false;
  if (stream.framed_ != stream.queued_) make_ready(stream);
}

bool Link::write(bool is_idle) {
  if (wire_ == nullptr || is_failed() || is_write_blocked_) return false;
  bool has_written = false;
  for (;;) {
    fill(is_idle);
    if (frame_count_ == 0) return has_written;
    write_pieces_.clear();
    for (size_t index = 0; index < frame_count_ && write_pieces_.size() < kWritePiecesMax;
         ++index) {
      const OutFrame& frame = *frames_[(frame_head_ + index) % frames_.size()];
      for (size_t piece = frame.first;
           piece < frame.pieces.size() && write_pieces_.size() < kWritePiecesMax; ++piece)
        write_pieces_.push_back(frame.pieces[piece]);
    }
    ++write_calls_;
    Result<size_t> written = wire_->write(write_pieces_);
    if (!written.is_ok()) {
      // Bytes that the peer sent before it went are still to be read: they may finish our
      // operations and they say why it left. Reading reports the failure when it comes to the end.
      write_failure_ = written.status();
      is_write_blocked_ = true;
      set_readable();
      return has_written;
    }
    if (written.value() == 0) {
      is_write_blocked_ = true;
      return has_written;
    }
    bytes_written_ += written.value();
    has_written = true;
    consume_written(written.value());
  }
}

void Link::consume_written(size_t bytes) {
  frame_bytes_ -= bytes;
  while (bytes > 0 ||
         (frame_count_ > 0 && frames_[frame_head_]->first == frames_[frame_head_]->pieces.size())) {
    OutFrame& frame = *frames_[frame_head_];
    while (bytes > 0 && frame.first < frame.pieces.size()) {
      iovec& piece = frame.pieces[frame.first];
      const size_t part = std::min(bytes, piece.iov_len);
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
      piece.iov_len -= part;
      bytes -= part;
      if (piece.iov_len == 0) ++frame.first;
    }
    if (frame.first < frame.pieces.size()) return;
    if (frame.stream != nullptr && frame.ends_message) frame.stream->on_captured();
    frame_head_ = (frame_head_ + 1) % frames_.size();
    --frame_count_;
  }
}

}  // namespace mccl
