#include "dump/dump_request.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/config.h"
#include "comm/dump_file.h"
#include "comm/dump_thread.h"
#include "comm/endpoint_core.h"
#include "verb/verb.h"

namespace mccl {
namespace {

constexpr int kLookMs = 10;  // between two looks for the file

std::string read_proc(int64_t pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name));
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first word after "NAME:\t" in a status file.
std::string find_field(const std::string& status, const std::string& name, size_t word) {
  const size_t begin = status.find("\n" + name + ":\t");
  if (begin == std::string::npos) return {};
  std::string line = status.substr(begin + name.size() + 3);
  line.resize(std::min(line.size(), line.find('\n')));
  std::replace(line.begin(), line.end(), '\t', ' ');
  size_t at = 0;
  for (; word > 0 && at != std::string::npos; --word) at = line.find(' ', at + 1);
  return at == std::string::npos ? std::string() : line.substr(at == 0 ? 0 : at + 1);
}

bool handles_signal(const std::string& status) {
  const std::string caught = find_field(status, "SigCgt", 0);
  return (std::strtoull(caught.c_str(), nullptr, 16) >> (SIGUSR1 - 1) & 1) != 0;
}

bool has_dump_thread(int64_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator tasks(fmt::format("/proc/{}/task", pid), error);
  if (error) return false;
  for (const auto& task : tasks) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == kDumpThreadName) return true;
  }
  return false;
}

Environment environment_of(int64_t pid) {
  Environment environment;
  const std::string text = read_proc(pid, "environ");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const size_t equals = entry.find('=');
    if (equals != std::string::npos)
      environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    begin = end + 1;
  }
  return environment;
}

std::string find_value(const Environment& environment, const std::string& name) {
  for (const auto& [key, value] : environment)
    if (key == name) return value;
  return {};
}

// Where the process writes; a relative path is relative to where it runs.
std::string directory_of(int64_t pid, const std::string& status) {
  const Environment environment = environment_of(pid);
  std::string directory = find_value(environment, "MCCL_DUMP_DIR");
  if (directory.empty()) {
    const std::string temporary = find_value(environment, "TMPDIR");
    const std::string uid = find_field(status, "Uid", 1);  // the effective one
    return fmt::format("{}/mccl-{}", temporary.starts_with('/') ? temporary : "/tmp",
                       std::strtoul(uid.c_str(), nullptr, 10));
  }
  if (directory.starts_with('/')) return directory;
  std::error_code error;
  const auto folder = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", pid), error);
  return error ? directory : (folder / directory).string();
}

struct Version {
  ino_t inode = 0;
  int64_t changed_ns = 0;
  bool operator==(const Version&) const = default;
};

Version version_of(const std::string& path) {
  struct stat state {};
  if (stat(path.c_str(), &state) != 0) return {};
#ifdef __APPLE__
  const timespec changed = state.st_ctimespec;
#else
  const timespec changed = state.st_ctim;
#endif
  return {state.st_ino, int64_t{changed.tv_sec} * kNsPerSecond + changed.tv_nsec};
}

}  // namespace

Result<DumpAnswer> request_dump(const DumpRequest& request, const Clock& clock) {
  const int64_t pid = request.pid;
  const std::string status = read_proc(pid, "status");
  if (status.empty())
    return Status(StatusCode::InvalidArgument, fmt::format("there is no process {} here", pid));
  if (!handles_signal(status) || !has_dump_thread(pid))
    return Status(StatusCode::InvalidArgument,
                  fmt::format("process {} would not answer: it has no endpoint of mccl, its "
                              "MCCL_DUMP_DIR is off, or it handles SIGUSR1 itself",
                              pid));
  Config config;
  config.dump_directory = request.directory.empty() ? directory_of(pid, status) : request.directory;
  const std::string path = choose_dump_file(config, host_name(), pid).path();
  const Version before = version_of(path);
  if (kill(static_cast<pid_t>(pid), SIGUSR1) != 0)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("process {} cannot be asked: {}", pid, std::strerror(errno)));
  const TimeNs deadline = deadline_after(clock.now(), request.timeout_ns);
  while (version_of(path) == before || version_of(path) == Version{}) {
    if (clock.now() >= deadline)
      return Status(
          StatusCode::Timeout,
          fmt::format("process {} has not written {} within {} s: it is stopped, cannot write "
                      "there, or writes elsewhere; --dir names another directory",
                      pid, path, static_cast<double>(request.timeout_ns) / 1e9));
    (void)poll(nullptr, 0, kLookMs);  // files of others do not tell that they have come
  }
  const Result<std::string> text = read_whole_file(path, nullptr);
  if (!text.is_ok()) return text.status();
  return DumpAnswer{path, text.value()};
}

}  // namespace mccl
