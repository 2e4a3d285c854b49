// `mccl overlap`: how much of the communication of a training step its compute hides.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kOverlapVerb;

}  // namespace mccl
