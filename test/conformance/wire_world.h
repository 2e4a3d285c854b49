// What the conformance suite of wires needs from a kind of wire. A new kind is a file beside
// tcp_wire_world.cc that implements WireWorld and ends in INSTANTIATE_TEST_SUITE_P; the tests
// themselves are in wire_test.cc and know no kind.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "mccl/wire.h"

namespace mccl {

// Some contexts that can reach each other, and the passing of time between them.
class WireWorld {
 public:
  virtual ~WireWorld() = default;

  // Numbered from 0; made by the factory, live as long as the world.
  virtual WireContext& context(size_t index) = 0;

  // Calls `step` again and again, with time passing between the calls, until it returns true. False
  // when it did not although nothing more can happen (or, in real time, after a long while). `step`
  // polls with a timeout of 0, so it works in virtual time too.
  virtual bool advance_until(const std::function<bool()>& step) = 0;

  // A well-formed address of this kind at which nobody listens.
  virtual std::string dead_address() = 0;

  // Real time: poll() may block this thread until another one calls wake().
  virtual bool can_block() const = 0;

  // close() still delivers what write() has taken.
  virtual bool close_delivers() const = 0;

  // How much one bulk test moves.
  virtual size_t bulk_bytes() const = 0;
};

using WireWorldFactory = std::function<std::unique_ptr<WireWorld>(size_t context_count)>;

struct WireKind {
  std::string name;
  WireWorldFactory make_world;
};

inline void PrintTo(const WireKind& kind, std::ostream* out) {
  *out << kind.name;
}

class WireTest : public ::testing::TestWithParam<WireKind> {};

}  // namespace mccl
