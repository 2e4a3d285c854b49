// For writers of devices: arithmetic on a device's memory, and the hand-off of memory between an
// asynchronous device and the engine.
//
// Implementers of Device guarantee law L6: bitwise commutative and equal on every CPU; half types
// are rounded to nearest even by integer code with subnormals kept; min and max are IEEE 754-2019
// minimum and maximum, a NaN result is one constant per type; integers wrap; bool results are
// exactly 0 or 1; the floating-point control register is set and restored.
// test/conformance/device_test.cc checks every implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "mccl/status.h"
#include "mccl/types.h"

namespace mccl {

class Device {
 public:
  virtual ~Device() = default;

  // Whether reduce() and fold() serve the pair: exactly where is_reduction_defined() of
  // src/base/dtype.h, which also words the refusal. Nothing below is called with another pair.
  virtual bool supports(DataType dtype, ReduceOp op) const = 0;

  // result[i] = op(left[i], right[i]) for `count` elements. `result` may be `left` or `right`, else
  // they do not overlap. Any alignment. Avg adds; the division is divide(). Any thread, does not
  // block.
  virtual void reduce(DataType dtype, ReduceOp op, void* result, const void* left,
                      const void* right, size_t count) const = 0;

  // Every destination[i] = the left fold of the sources in their order, accumulated in the type's
  // accumulation type (float32 for half types) and rounded once. A destination may be a source.
  // One source is copied, not reduced: its bits stay.
  virtual void fold(DataType dtype, ReduceOp op, std::span<void* const> destinations,
                    std::span<const void* const> sources, size_t count) const = 0;

  // data[i] = data[i] / divisor by one true division (integers toward zero): the second half of
  // Avg. `divisor` is positive; not for bool.
  virtual void divide(DataType dtype, void* data, size_t count, int64_t divisor) const = 0;
};

// One in-order stream of an asynchronous device, and how memory changes hands with the engine
// without anybody draining it (law L13; MCCL, arXiv 2610.39029, section 4.2). For each call:
//
//   the caller's thread                     the engine, on any thread
//   ticket = signal_producer()              await_producer(ticket): the kernels that write the
//   ... encodes other kernels ...             memory have finished (O1)
//   wait_consumer(ticket)                   ... reduces, sends, receives ...
//   ... encodes kernels that read ...       raise_consumer(ticket): those kernels may run (O2)
//
// Only the caller's thread encodes or commits, one call at a time (O3): the engine's two calls
// never touch the stream. Tickets are counted by events that both sides may raise and wait for;
// memory is ordered by them and by nothing else. test/conformance/hand_off_test.cc checks every
// implementation.
class HandOff {
 public:
  virtual ~HandOff() = default;

  // Encodes the signal of a new ticket behind all kernels encoded so far, and commits them: else a
  // ticket might never come. Does not wait for the device.
  virtual Result<uint64_t> signal_producer() = 0;

  // What is encoded from now on runs after raise_consumer(ticket); at once when that has been
  // called. Does not wait for the device or the engine.
  virtual Status wait_consumer(uint64_t ticket) = 0;

  // Whether the kernels before the ticket's signal have finished. If not, `wake` is called once
  // when they have, on any thread; it does not block and does not call back.
  virtual bool await_producer(uint64_t ticket, std::function<void()> wake) = 0;

  // The engine has done with the memory, also when it failed: nothing waits for the ticket longer.
  // Once for every ticket.
  virtual void raise_consumer(uint64_t ticket) = 0;
};

}  // namespace mccl
