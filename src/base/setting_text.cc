#include "base/setting_text.h"

#include <array>
#include <cmath>

namespace mccl {
namespace {

constexpr double kSecondsMax = 1e7;  // about four months; far below what TimeNs can hold

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower;
  for (const char letter : text)
    lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  return lower;
}

bool parse_byte_count(std::string_view text, int64_t min, int64_t max, int64_t* bytes) {
  constexpr std::string_view kSuffixes = "KMG";
  int shift = 0;
  const size_t suffix = kSuffixes.find(static_cast<char>(text.back() & ~0x20));
  if (suffix != std::string_view::npos) {
    shift = 10 * (static_cast<int>(suffix) + 1);
    text.remove_suffix(1);
  }
  const std::optional<int64_t> count = parse_number<int64_t>(text);
  if (!count || *count < 0 || *count > (max >> shift) || (*count << shift) < min) return false;
  *bytes = *count << shift;
  return true;
}

std::string write_byte_count(int64_t bytes) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"", "K", "M", "G"};
  size_t suffix = 0;
  while (bytes != 0 && bytes % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    bytes /= 1024;
    ++suffix;
  }
  return std::to_string(bytes) + std::string(kSuffixes[suffix]);
}

bool parse_seconds(std::string_view text, TimeNs* time) {
  const std::optional<double> seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= 0.001 && *seconds <= kSecondsMax)) return false;
  *time = std::llround(*seconds * 1e3) * kNsPerMs;
  return true;
}

std::string write_seconds(TimeNs time) {
  std::string text = std::to_string(time / kNsPerSecond);
  const int64_t thousandths = time % kNsPerSecond / kNsPerMs;
  if (thousandths != 0) {
    text += '.' + std::to_string(1000 + thousandths).substr(1);
    while (text.back() == '0') text.pop_back();
  }
  return text;
}

bool parse_switch(std::string_view text, std::string_view on, bool* value) {
  const std::string lower = lower_case(text);
  const bool is_on = lower == on;
  if (!is_on && lower != "0" && lower != "off") return false;
  *value = is_on;
  return true;
}

}  // namespace mccl
