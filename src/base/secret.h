// The secret of a job: from a setting or a file that only its owner may read.
#pragma once

#include <cstddef>
#include <string>

#include "base/config.h"
#include "mccl/status.h"

namespace mccl {

constexpr size_t kSecretBytesMax = 1024;

// MCCL_SECRET, or the first line of MCCL_SECRET_FILE; empty when neither is set. InvalidArgument,
// which never shows a secret, when the file cannot be read, is open to others or holds none, or
// when both are set and differ. Reads a file.
Result<std::string> read_secret(const Config& config);

}  // namespace mccl
