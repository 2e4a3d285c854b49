// `mccl doctor`: who reaches whom, how fast, and what to do about the rest.
#pragma once

#include "verb/verb.h"

namespace mccl {

extern const Verb kDoctorVerb;

}  // namespace mccl
