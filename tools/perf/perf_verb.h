// `mccl perf`: times, bandwidths and right results of a collective, in the manner of nccl-tests.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kPerfVerb;

}  // namespace mccl
