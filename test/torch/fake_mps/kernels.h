// The operators of the fake device that are not the CPU's, called later: memory, copies, views.
#pragma once

namespace mccl::fake_mps {

// Gives torch's MPS key its kernels, and the fallback for all others. Once per process.
void register_kernels();

}  // namespace mccl::fake_mps
