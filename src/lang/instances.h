// Instances: a program several times side by side. The recording becomes that of instance 0, in the
// chunk space of all of them; that is lowered once, and the others are the same lanes with constant
// offsets. So an instance needs exactly the steps, lanes and channels of the program alone, unless
// a span had to be cut because its chunks are no longer neighbours.
#pragma once

#include "lang/recording.h"

namespace mccl::lang {

// Instance 0 of `recording`, whose statements are legal. The layout in it is the one chosen.
Recording first_instance(const Recording& recording);

// What first_instance() made of `original`, lowered, becomes all instances; so do the lines.
// InvalidArgument: too many channels, too much scratch.
Status add_instances(const Recording& original, InstanceLayout layout, Program& program,
                     StepLines& lines);

}  // namespace mccl::lang
