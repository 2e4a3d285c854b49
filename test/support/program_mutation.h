// Small faults put into a program, as a faulty compiler or a slip of an editor would.
#pragma once

#include <array>

#include "base/prng.h"
#include "mccl/program.h"

namespace mccl {

enum class MutationKind : uint8_t {
  SwapOperands,      // two sources, a source and a destination, or the sources of two steps
  WeakenDependence,  // a dependence is dropped, or names an earlier step
  ShiftOffset,       // a span moves by one chunk
  RemoveMessage,     // at both ends
  SwapPeers,         // two streams exchange their receivers, at both ends
  SwapSteps,         // two neighbours of a lane
  ChangeOpcode,      // a reduction becomes a copy or the other way round
};

inline constexpr std::array kMutationKinds = {
    MutationKind::SwapOperands,  MutationKind::WeakenDependence, MutationKind::ShiftOffset,
    MutationKind::RemoveMessage, MutationKind::SwapPeers,        MutationKind::SwapSteps,
    MutationKind::ChangeOpcode};

const char* mutation_name(MutationKind kind);

// Changes the program in one place chosen by `prng`. False when the place does not lend itself to
// the kind; the program may then be changed or not, and is to be thrown away.
bool mutate(Program& program, MutationKind kind, Prng& prng);

}  // namespace mccl
