// Takes the waits off a lane's local reduces and puts them on its first one (MSCCL:
// dependence_nop).
#pragma once

#include "mccl/program.h"

namespace mccl::lang {

// Lanes that could then keep the program from ending stay as they are.
void hoist_waits(Program& program);

}  // namespace mccl::lang
