#include "transport/port_holder.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace mccl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCommandCharactersMax = 80;
constexpr std::string_view kListening = "0A";

// The address as the kernel prints it: its 32-bit words in hexadecimal, each as this machine reads
// it.
std::string host_column(const SocketAddress& address) {
  std::array<uint32_t, 4> words{};
  if (address.family() == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return fmt::format("{:08X}", ipv4->sin_addr.s_addr);
  }
  const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  std::memcpy(words.data(), &ipv6->sin6_addr, sizeof words);
  return fmt::format("{:08X}{:08X}{:08X}{:08X}", words[0], words[1], words[2], words[3]);
}

bool is_every_host(std::string_view host) {
  return host.find_first_not_of('0') == std::string_view::npos;
}

bool is_in_the_way(std::string_view listening_host, std::string_view wanted_host) {
  return listening_host == wanted_host || is_every_host(listening_host) ||
         is_every_host(wanted_host);
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has_socket(const fs::path& process, const std::vector<uint64_t>& inodes) {
  std::error_code ignored;  // the process may end meanwhile, or be another user's
  for (fs::directory_iterator entry(process / "fd", ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string target = fs::read_symlink(entry->path(), ignored).string();
    if (std::any_of(inodes.begin(), inodes.end(),
                    [&](uint64_t inode) { return target == fmt::format("socket:[{}]", inode); }))
      return true;
  }
  return false;
}

std::string command_of(const fs::path& process) {
  std::string command = read_all(process / "cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  // Arguments end in a zero; line breaks and the like would tear the message apart.
  std::replace_if(
      command.begin(), command.end(), [](unsigned char letter) { return letter < ' '; }, ' ');
  if (command.size() > kCommandCharactersMax)
    command = command.substr(0, kCommandCharactersMax - 3) + "...";
  return command;
}

}  // namespace

std::vector<uint64_t> find_listening_inodes(std::string_view table, const SocketAddress& address) {
  const std::string wanted_host = host_column(address);
  const std::string wanted_port = fmt::format("{:04X}", address.port());
  std::vector<uint64_t> inodes;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream columns(line);
    std::string slot, local, remote, state, queues, timer, retransmits, owner, timeout;
    uint64_t inode = 0;
    if (!(columns >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> owner >>
          timeout >> inode))
      continue;
    const size_t colon = local.find(':');
    if (state != kListening || colon == std::string::npos) continue;
    if (std::string_view(local).substr(colon + 1) != wanted_port) continue;
    if (is_in_the_way(std::string_view(local).substr(0, colon), wanted_host))
      inodes.push_back(inode);
  }
  return inodes;
}

std::optional<PortHolder> find_port_holder(const SocketAddress& address) {
  // A listener of IPv6 may take IPv4 as well, so it is the one only where there is no other.
  std::vector<uint64_t> inodes;
  if (address.family() == AF_INET)
    inodes = find_listening_inodes(read_all("/proc/net/tcp"), address);
  if (inodes.empty()) inodes = find_listening_inodes(read_all("/proc/net/tcp6"), address);
  if (inodes.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int process = 0;
    const auto [stop, fault] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (fault != std::errc() || stop != name.data() + name.size()) continue;
    if (has_socket(entry->path(), inodes)) return PortHolder{process, command_of(entry->path())};
  }
  return std::nullopt;
}

std::string describe_port_holder(const SocketAddress& address) {
  const std::optional<PortHolder> holder = find_port_holder(address);
  if (holder && holder->command.empty())
    return fmt::format("port {} is held by process {}", address.port(), holder->process);
  if (holder)
    return fmt::format("port {} is held by process {} ({})", address.port(), holder->process,
                       holder->command);
#if defined(__APPLE__)
  return fmt::format("`sudo lsof -nP -iTCP:{} -sTCP:LISTEN` shows who holds it", address.port());
#else
  return fmt::format(
      "this process may not see who holds port {}: `sudo ss -tanp 'sport = {}'` does",
      address.port(), address.port());
#endif
}

}  // namespace mccl
