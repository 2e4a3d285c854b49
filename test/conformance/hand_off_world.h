// What the conformance suite of hand-offs (law L13) needs from a kind of device. A new kind is a
// file that implements HandOffWorld and ends in INSTANTIATE_TEST_SUITE_P; the tests themselves are
// in hand_off_test.cc and know no kind.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mccl/device.h"

namespace mccl {

// A device with one in-order stream and some cells of memory, a number each. The device stands
// still unless run() is called, so a test sees what has not happened yet.
class HandOffWorld {
 public:
  virtual ~HandOffWorld() = default;

  // Where kernels find the cell; kCellCount of them, zero at first.
  static constexpr size_t kCellCount = 64;
  virtual int64_t* device_cell(size_t index) = 0;

  // A call on one cell: the hand-off for its one ticket, and where the engine finds the cell.
  struct Call {
    std::shared_ptr<HandOff> hand_off;
    int64_t* host_cell = nullptr;
  };
  virtual Call begin_call(size_t cell) = 0;

  // The framework's thread: a kernel behind all that is encoded, and the commit of what is open.
  virtual void encode(std::function<void()> kernel) = 0;
  virtual void commit() = 0;

  // The device does all that it can do now. Any thread, one at a time.
  virtual void run() = 0;

  // What the device found broken, in words.
  virtual std::vector<std::string> violations() = 0;
};

struct HandOffKind {
  std::string name;
  std::function<std::unique_ptr<HandOffWorld>()> make_world;
};

inline void PrintTo(const HandOffKind& kind, std::ostream* out) {
  *out << kind.name;
}

class HandOffTest : public ::testing::TestWithParam<HandOffKind> {};

}  // namespace mccl
