// SHA-256 of a text, as 64 lower-case hexadecimal digits: what tells two sets of programs apart.
#pragma once

#include <string>
#include <string_view>

namespace mccl {

// FIPS 180-4. Not for secrets: those go through the handshake's library. Any thread, does not
// block.
std::string sha256_hex(std::string_view text);

}  // namespace mccl
