// `mccl tune`: from which size on one program is faster than another, measured on live ranks.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kTuneVerb;

}  // namespace mccl
