// Judges a recording before anything is lowered.
#pragma once

#include <string>
#include <vector>

#include "lang/recording.h"

namespace mccl::lang {

// Largest values an author may name; beyond them a typing error would cost memory, not a message.
constexpr int kChannelMax = 1023;
constexpr int kScratchChunksMax = 1 << 20;
constexpr int kChunksMax = 1 << 20;  // of a buffer, with all instances

// Every fault, in the order of the statements. Sets the scratch sizes in the recording's shape.
std::vector<std::string> check(Recording& recording);

}  // namespace mccl::lang
