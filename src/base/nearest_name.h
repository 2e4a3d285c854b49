// The name that somebody may have meant.
#pragma once

#include <span>
#include <string_view>

namespace mccl {

// Of `names`, of which there is at least one, the first with the least edit distance to `name`.
std::string_view find_nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace mccl
