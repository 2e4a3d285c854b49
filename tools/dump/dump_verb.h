// `mccl dump`: the last operations of a process, and who waits for whom among several.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kDumpVerb;

}  // namespace mccl
