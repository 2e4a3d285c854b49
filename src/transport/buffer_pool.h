// Memory for parked messages. Buffers come in powers of two and go back to a free list, so a steady
// state allocates nothing. Not thread-safe: it belongs to the engine.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace mccl {

class BufferPool;

// Owns one buffer of a pool; gives it back when destroyed. Movable. The pool outlives it.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept { swap(other); }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    PooledBuffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  PooledBuffer(const PooledBuffer&) = delete;
  PooledBuffer& operator=(const PooledBuffer&) = delete;
  ~PooledBuffer();

  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  void swap(PooledBuffer& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(size_class_, other.size_class_);
  }
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  int size_class_ = 0;
};

class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() {
    for (std::vector<std::byte*>& list : free_)
      for (std::byte* data : list) std::free(data);
  }

  // At least `bytes` bytes, aligned to a cache line.
  PooledBuffer take(size_t bytes) {
    const int size_class = size_class_of(bytes);
    PooledBuffer buffer;
    buffer.pool_ = this;
    buffer.size_class_ = size_class;
    std::vector<std::byte*>& list = free_[static_cast<size_t>(size_class)];
    if (!list.empty()) {
      buffer.data_ = list.back();
      list.pop_back();
    } else {
      buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(64, size_t{1} << size_class));
      if (buffer.data_ == nullptr) throw std::bad_alloc();
    }
    bytes_out_ += size_t{1} << size_class;
    bytes_out_max_ = std::max(bytes_out_max_, bytes_out_);
    return buffer;
  }

  // Bytes in use now: what is parked.
  size_t bytes_out() const { return bytes_out_; }
  // The most that there ever were.
  size_t bytes_out_max() const { return bytes_out_max_; }

 private:
  friend class PooledBuffer;
  static constexpr int kSmallestClass = 9;  // 512 bytes
  static int size_class_of(size_t bytes) {
    const int size_class = static_cast<int>(std::bit_width(bytes == 0 ? 0 : bytes - 1));
    return size_class < kSmallestClass ? kSmallestClass : size_class;
  }
  void give_back(std::byte* data, int size_class) {
    bytes_out_ -= size_t{1} << size_class;
    free_[static_cast<size_t>(size_class)].push_back(data);
  }

  std::array<std::vector<std::byte*>, 48> free_;
  size_t bytes_out_ = 0;
  size_t bytes_out_max_ = 0;
};

inline PooledBuffer::~PooledBuffer() {
  if (data_ != nullptr) pool_->give_back(data_, size_class_);
}

}  // namespace mccl
