// The only source of randomness in tests and simulation: seeded, the same on every machine.
// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, every seed gives a full-period sequence.
#pragma once

#include <cstdint>

namespace mccl {

class Prng {
 public:
  explicit Prng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

  // Uniform in [0, bound); bound must be positive. The bias of the modulus is below 2^-32 for the
  // small bounds used here.
  uint64_t below(uint64_t bound) { return next() % bound; }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace mccl
