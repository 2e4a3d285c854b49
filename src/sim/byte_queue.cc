#include "sim/byte_queue.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace mccl::sim {

ByteChunk* ByteChunkPool::take() {
  if (free_ == nullptr) {
    // Not make_unique: that would clear four kilobytes that append() overwrites.
    all_.emplace_back(new ByteChunk);
    all_.back()->next = nullptr;
    return all_.back().get();
  }
  ByteChunk* chunk = free_;
  free_ = chunk->next;
  chunk->next = nullptr;
  return chunk;
}

void ByteChunkPool::give(ByteChunk* chunk) {
  chunk->next = free_;
  free_ = chunk;
}

void ByteQueue::append(const void* data, size_t count_bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  size_bytes_ += count_bytes;
  while (count_bytes > 0) {
    if (tail_used_bytes_ == ByteChunk::kBytes) {
      ByteChunk* chunk = pool_->take();
      (tail_ == nullptr ? head_ : tail_->next) = chunk;
      tail_ = chunk;
      tail_used_bytes_ = 0;
    }
    const size_t part_bytes = std::min(count_bytes, ByteChunk::kBytes - tail_used_bytes_);
    std::memcpy(tail_->bytes + tail_used_bytes_, from, part_bytes);
    tail_used_bytes_ += part_bytes;
    from += part_bytes;
    count_bytes -= part_bytes;
  }
}

void ByteQueue::append_blank(size_t count_bytes) {
  if (count_bytes == 0) return;
  const uint64_t begin = taken_bytes_ + size_bytes_;
  blanks_.push_back({begin, begin + count_bytes});
  size_bytes_ += count_bytes;
}

void ByteQueue::take(void* data, size_t count_bytes) {
  MCCL_CHECK_LE(count_bytes, size_bytes_);
  auto* into = static_cast<unsigned char*>(data);
  while (count_bytes > 0) {
    size_t part_bytes = count_bytes;
    const bool has_blank = first_blank_ < blanks_.size();
    const bool is_blank = has_blank && blanks_[first_blank_].begin <= taken_bytes_;
    if (has_blank) {
      const Blank& blank = blanks_[first_blank_];
      part_bytes =
          std::min<uint64_t>(count_bytes, (is_blank ? blank.end : blank.begin) - taken_bytes_);
    }
    if (!is_blank) take_stored(into, part_bytes);
    if (into != nullptr) into += part_bytes;
    taken_bytes_ += part_bytes;
    size_bytes_ -= part_bytes;
    count_bytes -= part_bytes;
    if (is_blank && blanks_[first_blank_].end == taken_bytes_) ++first_blank_;
    if (first_blank_ * 2 < blanks_.size()) continue;
    blanks_.erase(blanks_.begin(), blanks_.begin() + static_cast<ptrdiff_t>(first_blank_));
    first_blank_ = 0;
  }
}

void ByteQueue::take_stored(unsigned char* into, size_t count_bytes) {
  while (count_bytes > 0) {
    const size_t end_bytes = head_ == tail_ ? tail_used_bytes_ : ByteChunk::kBytes;
    const size_t part_bytes = std::min(count_bytes, end_bytes - head_offset_bytes_);
    if (into != nullptr) {
      std::memcpy(into, head_->bytes + head_offset_bytes_, part_bytes);
      into += part_bytes;
    }
    head_offset_bytes_ += part_bytes;
    count_bytes -= part_bytes;
    if (head_offset_bytes_ != end_bytes) continue;
    ByteChunk* empty = head_;
    head_ = empty->next;
    head_offset_bytes_ = 0;
    if (head_ == nullptr) {
      tail_ = nullptr;
      tail_used_bytes_ = ByteChunk::kBytes;
    }
    pool_->give(empty);
  }
}

}  // namespace mccl::sim
