// `mccl check`: whether a program file is right.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kCheckVerb;

}  // namespace mccl
