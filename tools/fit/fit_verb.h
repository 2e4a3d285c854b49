// `mccl fit`: alpha and B of a network from measured times.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kFitVerb;

}  // namespace mccl
