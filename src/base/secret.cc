#include "base/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mccl {
namespace {

Status refuse(const std::string& path, const std::string& text) {
  return Status(StatusCode::InvalidArgument, "MCCL_SECRET_FILE=" + path + " " + text);
}

// Of an open file, so that it is the one that is read.
Status check_access(int file, const std::string& path) {
  struct stat found {};
  if (::fstat(file, &found) != 0) return refuse(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return refuse(path, "is not a file");
  const unsigned mode = found.st_mode & 07777;
  if ((mode & 077) != 0)
    return refuse(
        path, fmt::format("is open to others than its owner (mode {:04o}): chmod 600 it", mode));
  return Status::ok();
}

Result<std::string> read_file(int file, const std::string& path) {
  MCCL_RETURN_IF_ERROR(check_access(file, path));
  std::string text(kSecretBytesMax + 2, '\0');  // a line of that size and its end
  size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = ::read(file, text.data() + bytes, text.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    bytes += static_cast<size_t>(got);
  }
  text.resize(bytes);
  text.resize(std::min(text.find('\n'), text.size()));
  if (!text.empty() && text.back() == '\r') text.pop_back();
  if (text.empty()) return refuse(path, "has an empty first line: write the secret there");
  if (text.size() > kSecretBytesMax)
    return refuse(path, fmt::format("has a first line of more than {} bytes", kSecretBytesMax));
  return text;
}

}  // namespace

Result<std::string> read_secret(const Config& config) {
  if (config.secret_file.empty()) return config.secret;
  const int file = ::open(config.secret_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return refuse(config.secret_file, fmt::format("cannot be read: {}", std::strerror(errno)));
  Result<std::string> secret = read_file(file, config.secret_file);
  ::close(file);
  if (secret.is_ok() && !config.secret.empty() && config.secret != secret.value())
    return refuse(config.secret_file, "holds another secret than MCCL_SECRET: unset one of them");
  return secret;
}

}  // namespace mccl
