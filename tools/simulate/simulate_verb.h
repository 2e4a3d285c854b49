// `mccl simulate`: a program on a network that does not exist yet.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kSimulateVerb;

}  // namespace mccl
