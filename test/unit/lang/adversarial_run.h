// Runs a lowered program on one number per chunk, taking any lane that can go on, by a seed. Two
// messages per stream. Shares nothing with `lang` or `verify`; finds races by running into them.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mccl/program.h"

namespace mccl {

// Memory of all ranks; in place, an input chunk is the output chunk it aliases.
class Memory {
 public:
  Memory(const Program& program, bool in_place) : program_(program), in_place_(in_place) {}

  uint64_t& at(int rank, Buffer buffer, int index) {
    const int alias =
        in_place_ && buffer == Buffer::Input ? input_alias(program_, rank, index) : -1;
    if (alias >= 0) {
      buffer = Buffer::Output;
      index = alias;
    }
    return chunks_[{rank, buffer, index}];
  }
  std::vector<uint64_t> load(const Span& span);
  void store(const Span& span, const std::vector<uint64_t>& values);
  // Output chunks of all ranks.
  std::vector<uint64_t> outputs();

 private:
  const Program& program_;
  bool in_place_;
  std::map<std::tuple<int, Buffer, int>, uint64_t> chunks_;
};

// Empty when the program ended, else what it hangs in.
std::string run_adversarially(const Program& program, Memory& memory, uint64_t seed);

}  // namespace mccl
