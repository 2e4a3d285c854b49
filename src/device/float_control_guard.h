// The calling thread's floating-point control register, set to the default for a scope.
#pragma once

#include <cstdint>

namespace mccl {

// While it lives, its thread rounds to nearest even and keeps subnormals, whatever the caller chose
// (torch can flush subnormals on any thread). Its end restores the register exactly, the sticky
// exception flags included. Not for other threads; nests.
class FloatControlGuard {
 public:
  // Out of line, so that no arithmetic of the caller moves across them.
  FloatControlGuard();
  ~FloatControlGuard();
  FloatControlGuard(const FloatControlGuard&) = delete;
  FloatControlGuard& operator=(const FloatControlGuard&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace mccl
