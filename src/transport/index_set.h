// A set of small numbers that is visited in ascending order: which of an endpoint's links have
// something to do. 200 links are four words, so that a visit costs what there is to do.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mccl {

class IndexSet {
 public:
  void insert(size_t index) {
    if (index / 64 >= words_.size()) words_.resize(index / 64 + 1);
    words_[index / 64] |= bit(index);
  }
  void erase(size_t index) {
    if (index / 64 < words_.size()) words_[index / 64] &= ~bit(index);
  }
  bool contains(size_t index) const {
    return index / 64 < words_.size() && (words_[index / 64] & bit(index)) != 0;
  }

  // The smallest member that is at least `from`, or kNone.
  static constexpr size_t kNone = SIZE_MAX;
  size_t find_next(size_t from) const {
    for (size_t word = from / 64; word < words_.size(); ++word) {
      const uint64_t first_bits = word == from / 64 ? ~uint64_t{0} << from % 64 : ~uint64_t{0};
      const uint64_t bits = words_[word] & first_bits;
      if (bits != 0) return word * 64 + static_cast<size_t>(std::countr_zero(bits));
    }
    return kNone;
  }

  // Calls visit(index) for every member, also for one that joins behind the present one meanwhile;
  // members may leave.
  template <typename Visitor>
  void visit(Visitor visitor) const {
    for (size_t index = find_next(0); index != kNone; index = find_next(index + 1)) visitor(index);
  }

 private:
  static uint64_t bit(size_t index) { return uint64_t{1} << index % 64; }

  std::vector<uint64_t> words_;
};

}  // namespace mccl
