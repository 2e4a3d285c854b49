#include "verb/verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <ostream>

namespace mccl {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 40;
constexpr size_t kFileBytesMax = size_t{64} << 20;

}  // namespace

ExitCode exit_code_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::Ok:
      return ExitCode::Ok;
    case StatusCode::InvalidArgument:
      return ExitCode::Usage;
    case StatusCode::Network:
    case StatusCode::PeerLost:
      return ExitCode::Network;
    case StatusCode::Timeout:
      return ExitCode::Timeout;
    case StatusCode::Unsupported:
    case StatusCode::NotProven:
    case StatusCode::Mismatch:
    case StatusCode::Aborted:
    case StatusCode::Internal:
      break;
  }
  return ExitCode::No;
}

std::string_view figure_kind_name(FigureKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"measured", "modelled", "simulated",
                                                      "extrapolated"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Terminal::bold(std::string_view text) const {
  return has_colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

ExitCode report(Terminal& terminal, std::string_view verb, const Status& status) {
  terminal.err << "mccl " << verb << ": " << status.message() << "\n";
  return exit_code_of(status);
}

Result<int64_t> parse_bytes(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  constexpr std::string_view kSuffixes = "KMG";
  const size_t place = suffix.size() == 1 ? kSuffixes.find(suffix[0]) : std::string_view::npos;
  const bool is_suffix = suffix.empty() || place != std::string_view::npos;
  const int shift = suffix.empty() ? 0 : 10 * (static_cast<int>(place) + 1);
  if (error != std::errc() || !is_suffix || value < 0 || value > (kBytesMax >> shift))
    return Status(
        StatusCode::InvalidArgument,
        fmt::format("\"{}\" is not a size: bytes from 0 to 1024G, with a suffix K, M or G "
                    "(powers of 1024) or none",
                    text));
  return value << shift;
}

Result<std::vector<int64_t>> parse_byte_list(std::string_view text) {
  std::vector<int64_t> sizes;
  while (true) {
    const size_t comma = text.find(',');
    Result<int64_t> bytes = parse_bytes(text.substr(0, comma));
    if (!bytes.is_ok()) return bytes.status();
    sizes.push_back(bytes.value());
    if (comma == std::string_view::npos) return sizes;
    text.remove_prefix(comma + 1);
  }
}

std::string write_bytes(int64_t bytes) {
  constexpr std::string_view kSuffixes = "KMG";
  for (int power = 3; power > 0; --power) {
    const int64_t unit = int64_t{1} << (10 * power);
    if (bytes >= unit && bytes % unit == 0)
      return fmt::format("{}{}", bytes / unit, kSuffixes[static_cast<size_t>(power - 1)]);
  }
  return std::to_string(bytes);
}

Result<std::string> read_whole_file(const std::string& name, std::istream* standard_input) {
  const bool is_standard = name == "-" && standard_input != nullptr;
  std::ifstream file;
  if (!is_standard) file.open(name, std::ios::binary);
  std::istream& from = is_standard ? *standard_input : file;
  std::string text;
  std::vector<char> piece(size_t{1} << 16);
  // read() also of a directory only fails, where an iterator over the buffer would throw.
  while (from.good() && text.size() <= kFileBytesMax) {
    from.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<size_t>(from.gcount()));
  }
  if (text.size() > kFileBytesMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("{}: longer than the {} bytes that are read", name, kFileBytesMax));
  if (!from.eof() || from.bad())
    return Status(StatusCode::InvalidArgument, fmt::format("{}: cannot be read", name));
  return text;
}

Status wrong_usage(const std::string& text) {
  return {StatusCode::InvalidArgument, text};
}

Status check_range(const char* option, double value, double least, double most) {
  if (value >= least && value <= most) return Status::ok();
  return wrong_usage(fmt::format("{} {}: allowed are {} to {}", option, value, least, most));
}

std::string check_seed(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end
             ? std::string()
             : fmt::format("\"{}\" is not a whole number from 0 to 2^64 - 1", text);
}

std::string draw_bar(double share, int width) {
  const auto marks = std::lround(std::clamp(share, 0.0, 1.0) * width);
  return std::string(static_cast<size_t>(marks), '#');
}

}  // namespace mccl
