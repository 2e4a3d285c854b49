// Inside the planner: the checksum that plan hashes and the table's last line share.
#pragma once

#include <cstdint>
#include <string_view>

namespace mccl {

// FNV-1a with 32 bits (Fowler, Noll, Vo).
uint32_t fnv1a(std::string_view text);

}  // namespace mccl
