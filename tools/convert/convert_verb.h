// `mccl convert`: a program file in the other dialect.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kConvertVerb;

}  // namespace mccl
