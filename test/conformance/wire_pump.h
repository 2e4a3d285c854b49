// A stream of known bytes for tests of wires: its two ends, in random pieces, driven by events
// alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "mccl/wire.h"

namespace mccl {

// Byte p of every test stream is pattern[p % size]; the size is prime, so no power of two hides a
// piece that was repeated or left out.
constexpr size_t kPatternBytes = 1'048'573;
constexpr size_t kPieceBytesMax = size_t{96} << 10;

inline const std::vector<char>& pattern() {
  static const std::vector<char> bytes = [] {
    std::vector<char> made(kPatternBytes + kPieceBytesMax);
    Prng prng(7);
    for (size_t index = 0; index < kPatternBytes; ++index)
      made[index] = static_cast<char>(prng.below(256));
    std::copy_n(made.begin(), kPieceBytesMax, made.begin() + kPatternBytes);
    return made;
  }();
  return bytes;
}

inline const char* pattern_at(uint64_t position) {
  return pattern().data() + position % kPatternBytes;
}

inline Result<size_t> write_bytes(Wire& wire, const char* bytes, size_t length) {
  const iovec piece{const_cast<char*>(bytes), length};
  return wire.write({&piece, 1});
}

inline Result<size_t> read_bytes(Wire& wire, char* bytes, size_t length) {
  const iovec piece{bytes, length};
  return wire.read({&piece, 1});
}

// Writes the pattern in random pieces, empty ones among them, for as long as the wire takes them.
class Writer {
 public:
  Writer(Wire& wire, uint64_t total_bytes, uint64_t seed)
      : wire_(wire), total_bytes_(total_bytes), prng_(seed) {}

  void on_event(const WireEvent& event) { is_writable_ |= event.writable; }

  void pump() {
    while (is_writable_ && status_.is_ok() && written_bytes_ < total_bytes_) {
      std::vector<iovec> pieces;
      uint64_t asked_bytes = 0;
      for (uint64_t count = 1 + prng_.below(5); count > 0; --count) {
        const uint64_t rest = total_bytes_ - written_bytes_ - asked_bytes;
        const size_t length = std::min<uint64_t>(rest, prng_.below(kPieceBytesMax));
        pieces.push_back({const_cast<char*>(pattern_at(written_bytes_ + asked_bytes)), length});
        asked_bytes += length;
      }
      Result<size_t> taken = wire_.write(pieces);
      status_ = taken.status();
      if (!taken.is_ok()) return;
      written_bytes_ += taken.value();
      is_writable_ = taken.value() == asked_bytes;
    }
  }

  // Writes on, events or not, until the wire takes nothing.
  void fill() {
    uint64_t before_bytes = 0;
    do {
      before_bytes = written_bytes_;
      is_writable_ = true;
      pump();
    } while (written_bytes_ > before_bytes);
  }

  void stop() { total_bytes_ = written_bytes_; }

  uint64_t written_bytes() const { return written_bytes_; }
  bool is_done() const { return written_bytes_ == total_bytes_; }
  const Status& status() const { return status_; }

 private:
  Wire& wire_;
  uint64_t total_bytes_;
  uint64_t written_bytes_ = 0;
  bool is_writable_ = true;
  Prng prng_;
  Status status_;
};

// Reads into random pieces until the wire has nothing, and compares with the pattern.
class Reader {
 public:
  Reader(Wire& wire, uint64_t seed) : wire_(wire), prng_(seed) {}

  void on_event(const WireEvent& event) { is_readable_ |= event.readable; }

  void pump() {
    while (is_readable_ && status_.is_ok()) {
      const size_t first_bytes = prng_.below(kPieceBytesMax / 2);
      const size_t second_bytes = 1 + prng_.below(kPieceBytesMax / 2);
      const std::array<iovec, 2> pieces = {iovec{buffer_.data(), first_bytes},
                                           iovec{buffer_.data() + first_bytes, second_bytes}};
      Result<size_t> got = wire_.read(pieces);
      status_ = got.status();
      is_readable_ = got.is_ok() && got.value() > 0;
      if (!is_readable_) return;
      ASSERT_LE(got.value(), first_bytes + second_bytes);
      ASSERT_EQ(std::memcmp(buffer_.data(), pattern_at(bytes_), got.value()), 0)
          << "wrong bytes after position " << bytes_;
      bytes_ += got.value();
    }
  }

  uint64_t bytes() const { return bytes_; }
  const Status& status() const { return status_; }

 private:
  Wire& wire_;
  uint64_t bytes_ = 0;
  bool is_readable_ = false;  // the first event is the contract's, not the test's
  Prng prng_;
  Status status_;
  std::vector<char> buffer_ = std::vector<char>(kPieceBytesMax);
};

}  // namespace mccl
