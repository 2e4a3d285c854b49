// What the parser of MSCCL's loaders cannot read, though it is XML. Internal to ir.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mccl {

using LoaderTextReport = std::function<void(size_t offset, std::string text)>;

// Calls `report` for every such place, at most once for each tag, in document order. `text` is well
// formed XML.
void check_loader_text(std::string_view text, const LoaderTextReport& report);

}  // namespace mccl
