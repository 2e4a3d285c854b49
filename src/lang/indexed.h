// A vector whose index is an int, the type of every number that names something in this folder.
#pragma once

#include <vector>

namespace mccl::lang {

template <typename T>
struct Indexed : std::vector<T> {
  using std::vector<T>::vector;
  T& operator[](int index) { return this->data()[index]; }
  const T& operator[](int index) const { return this->data()[index]; }
  int count() const { return static_cast<int>(this->size()); }
};

}  // namespace mccl::lang
