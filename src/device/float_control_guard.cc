#include "device/float_control_guard.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "name this processor's floating-point control register here"
#endif

namespace mccl {
namespace {

#if defined(__x86_64__)

// MXCSR: every exception masked, nearest even, flush-to-zero and denormals-are-zero off.
constexpr uint64_t kDefaultControl = 0x1f80;

uint64_t read_control() {
  return _mm_getcsr();
}
void write_control(uint64_t value) {
  _mm_setcsr(static_cast<unsigned>(value));
}

#else

// FPCR: the architecture's default for every mode is zero.
constexpr uint64_t kDefaultControl = 0;

uint64_t read_control() {
  uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_control(uint64_t value) {
  asm volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

#endif

}  // namespace

FloatControlGuard::FloatControlGuard() : saved_(read_control()) {
  if (saved_ != kDefaultControl) write_control(kDefaultControl);
}

FloatControlGuard::~FloatControlGuard() {
  write_control(saved_);
}

}  // namespace mccl
