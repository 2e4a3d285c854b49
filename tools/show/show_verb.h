// `mccl show`: what is in a program file.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kShowVerb;

}  // namespace mccl
