// `mccl explain`: which program would serve a call, and what is in the way of every other.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kExplainVerb;

}  // namespace mccl
