// A queue whose slots are reused: what a slot owns (the capacity of a vector) outlives its stay in
// the queue, so that a steady state allocates nothing. Grows when full, never shrinks.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace mccl {

template <typename T>
class SlotRing {
 public:
  size_t size() const { return count_; }
  bool is_empty() const { return count_ == 0; }

  // Index 0 is the front. References are valid until the next push().
  T& operator[](size_t index) { return slots_[(head_ + index) & (slots_.size() - 1)]; }
  T& front() { return (*this)[0]; }

  // A slot at the back, as its last user left it.
  T& push() {
    if (count_ == slots_.size()) grow();
    return (*this)[count_++];
  }

  // Takes the front out of the queue; its slot keeps its contents.
  void pop() {
    MCCL_CHECK(count_ > 0);
    head_ = (head_ + 1) & (slots_.size() - 1);
    --count_;
  }

 private:
  void grow() {
    std::vector<T> grown(slots_.empty() ? 4 : 2 * slots_.size());
    for (size_t index = 0; index < count_; ++index) grown[index] = std::move((*this)[index]);
    slots_ = std::move(grown);
    head_ = 0;
  }

  std::vector<T> slots_;  // a power of two, or none
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace mccl
