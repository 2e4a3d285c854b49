// A position in a caller's pieces, cut into batches that one sendmsg() or recvmsg() takes.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace mccl {

class PieceCursor {
 public:
  // Linux and macOS refuse more than 1,024 pieces per call; a quarter of it costs less stack.
  static constexpr size_t kPiecesPerCall = 256;

  // macOS refuses 2 GiB and more in one call.
  static constexpr size_t kBytesPerCall = size_t{1} << 30;

  // The pieces stay the caller's and must live as long as the cursor.
  explicit PieceCursor(std::span<const iovec> pieces, size_t bytes_per_call = kBytesPerCall)
      : rest_(pieces), bytes_per_call_(bytes_per_call) {
    skip_finished();
  }

  // Nothing is left but empty pieces.
  bool is_done() const { return rest_.empty(); }

  // Valid until the next call on this object.
  msghdr* next_batch() {
    size_t count = 0;
    size_t bytes = 0;
    size_t offset_bytes = offset_bytes_;
    for (; count < rest_.size() && count < kPiecesPerCall && bytes < bytes_per_call_; ++count) {
      const iovec& piece = rest_[count];
      const size_t length = std::min(piece.iov_len - offset_bytes, bytes_per_call_ - bytes);
      batch_[count] = {static_cast<char*>(piece.iov_base) + offset_bytes, length};
      bytes += length;
      offset_bytes = 0;
    }
    message_.msg_iov = batch_.data();
    message_.msg_iovlen = static_cast<decltype(message_.msg_iovlen)>(count);
    return &message_;
  }

  // `bytes` of the last batch were moved.
  void advance(size_t bytes) {
    offset_bytes_ += bytes;
    skip_finished();
  }

 private:
  void skip_finished() {
    while (!rest_.empty() && offset_bytes_ >= rest_.front().iov_len) {
      offset_bytes_ -= rest_.front().iov_len;
      rest_ = rest_.subspan(1);
    }
  }

  std::span<const iovec> rest_;
  size_t bytes_per_call_;
  size_t offset_bytes_ = 0;  // into the first piece of rest_
  std::array<iovec, kPiecesPerCall> batch_;
  msghdr message_{};
};

}  // namespace mccl
