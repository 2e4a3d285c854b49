// `mccl plan`: which program for which size on a network, and what each would take.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kPlanVerb;

}  // namespace mccl
