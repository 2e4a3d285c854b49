// `mccl env`: every setting, its value here and where that comes from.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kEnvVerb;

}  // namespace mccl
