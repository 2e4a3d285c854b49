#include "comm/dump_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace mccl {
namespace {

// In the directory that nobody chose and nobody clears.
constexpr size_t kDumpsKeptMax = 256;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

Status cannot(const char* what, const std::string& path, int error) {
  return Status(StatusCode::InvalidArgument,
                fmt::format("{} {}: {}; let MCCL_DUMP_DIR name a directory of yours, or be off",
                            what, path, std::strerror(error)));
}

Status check_private(const DumpFile& file, const Descriptor& directory) {
  struct stat state {};
  if (fstat(directory.number(), &state) != 0)
    return cannot("cannot look at", file.directory, errno);
  if (state.st_uid == geteuid() && (state.st_mode & 077) == 0) return Status::ok();
  return Status(StatusCode::InvalidArgument,
                fmt::format("{} belongs to user {} and has mode {:o}, where user {} and mode 700 "
                            "are needed; remove it, or let MCCL_DUMP_DIR name another directory",
                            file.directory, state.st_uid, state.st_mode & 0777, geteuid()));
}

Status write_whole(const Descriptor& file, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(file.number(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return cannot("cannot write", path, count < 0 ? errno : ENOSPC);
    done += static_cast<size_t>(count);
  }
  return Status::ok();
}

// Removes the oldest of too many dumps, and what writers that were killed left half.
void remove_oldest(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator next(directory, error), end; !error && next != end;
       next.increment(error))
    files.emplace_back(next->last_write_time(error), next->path());
  if (files.size() <= kDumpsKeptMax) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - kDumpsKeptMax);
  for (const auto& [time, path] : files) fs::remove(path, error);
}

}  // namespace

DumpFile choose_dump_file(const Config& config, const std::string& host, int64_t pid) {
  std::string name;
  for (const char letter : host) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') || letter == '-' || letter == '.';
    name += is_plain && !(name.empty() && letter == '.') ? letter : '_';
  }
  name += fmt::format("-{}.json", pid);
  if (!config.dump_directory.empty()) return {config.dump_directory, name, false};
  return {fmt::format("{}/mccl-{}", temporary_directory(), geteuid()), name, true};
}

DumpFile dump_file_at(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path, false};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1), false};
}

Status write_dump_file(const DumpFile& file, const std::string& text, uint64_t writer) {
  if (mkdir(file.directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannot("cannot make", file.directory, errno);
  const int follow = file.is_private ? O_NOFOLLOW : 0;
  const Descriptor directory(
      open(file.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
  if (!directory.is_open()) return cannot("cannot open", file.directory, errno);
  if (file.is_private) MCCL_RETURN_IF_ERROR(check_private(file, directory));
  const std::string unfinished = fmt::format(".{}.{:x}", file.name, writer);
  (void)unlinkat(directory.number(), unfinished.c_str(), 0);
  const Descriptor written(openat(directory.number(), unfinished.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!written.is_open()) return cannot("cannot write in", file.directory, errno);
  Status status = write_whole(written, text, file.path());
  if (status.is_ok() &&
      renameat(directory.number(), unfinished.c_str(), directory.number(), file.name.c_str()) != 0)
    status = cannot("cannot write", file.path(), errno);
  if (status.is_ok() && file.is_private) remove_oldest(file.directory);
  if (!status.is_ok()) (void)unlinkat(directory.number(), unfinished.c_str(), 0);
  return status;
}

}  // namespace mccl
