#include "comm/holdup.h"

#include <algorithm>
#include <cstring>

#include "transport/frame.h"

namespace mccl {
namespace {

struct PackedHoldup {
  uint64_t process;
  uint64_t communicator;
  uint64_t version;
  uint64_t posted_count;
  uint64_t waits_for;
  uint32_t age_ms;
  uint16_t name_bytes;
  uint16_t text_bytes;
  uint16_t is_busy;
  uint16_t is_silent;
  uint32_t reserved;
};
static_assert(sizeof(PackedHoldup) == 56);
static_assert(kHoldupsMax * (sizeof(PackedHoldup) + kHoldupTextMax) <= kReportBytesMax);
constexpr TimeNs kAgeMaxMs = 3'600'000;
constexpr size_t kNameMax = kHoldupTextMax / 2;

void append(std::vector<std::byte>& bytes, const void* data, size_t count) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + count);
}

std::string take_text(std::span<const std::byte>& bytes, size_t count) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), count);
  bytes = bytes.subspan(count);
  return text;
}

}  // namespace

std::vector<std::byte> write_report(std::span<const Holdup> holdups, TimeNs now) {
  std::vector<std::byte> report;
  for (const Holdup& holdup : holdups.first(std::min(holdups.size(), kHoldupsMax))) {
    const size_t name_bytes = std::min(holdup.name.size(), kNameMax);
    const size_t text_bytes = std::min(holdup.text.size(), kHoldupTextMax - name_bytes);
    const TimeNs age_ms = std::clamp<TimeNs>((now - holdup.said_at) / kNsPerMs, 0, kAgeMaxMs);
    const PackedHoldup packed{holdup.process,
                              holdup.communicator,
                              holdup.version,
                              holdup.posted_count,
                              holdup.waits_for,
                              static_cast<uint32_t>(age_ms),
                              static_cast<uint16_t>(name_bytes),
                              static_cast<uint16_t>(text_bytes),
                              holdup.is_busy,
                              holdup.is_silent,
                              0};
    append(report, &packed, sizeof(packed));
    append(report, holdup.name.data(), name_bytes);
    append(report, holdup.text.data(), text_bytes);
  }
  return report;
}

std::optional<std::vector<Holdup>> parse_report(std::span<const std::byte> report, TimeNs now) {
  std::vector<Holdup> holdups;
  while (!report.empty()) {
    PackedHoldup packed;
    if (report.size() < sizeof(packed) || holdups.size() == kHoldupsMax) return std::nullopt;
    std::memcpy(&packed, report.data(), sizeof(packed));
    report = report.subspan(sizeof(packed));
    const size_t words = size_t{packed.name_bytes} + packed.text_bytes;
    if (words > std::min(report.size(), kHoldupTextMax) || packed.is_busy > 1 ||
        packed.is_silent > 1 || packed.age_ms > kAgeMaxMs)
      return std::nullopt;
    Holdup& holdup = holdups.emplace_back();
    holdup.process = packed.process;
    holdup.communicator = packed.communicator;
    holdup.version = packed.version;
    holdup.posted_count = packed.posted_count;
    holdup.waits_for = packed.waits_for;
    holdup.is_busy = packed.is_busy == 1;
    holdup.is_silent = packed.is_silent == 1;
    holdup.said_at = now - packed.age_ms * kNsPerMs;
    holdup.name = take_text(report, packed.name_bytes);
    holdup.text = take_text(report, packed.text_bytes);
  }
  return holdups;
}

std::vector<Holdup> find_circle(uint64_t process, std::span<const uint64_t> first,
                                std::span<const Holdup> holdups) {
  for (uint64_t at : first) {
    std::vector<Holdup> path;
    while (at != process && path.size() < holdups.size()) {
      const auto next = std::find_if(holdups.begin(), holdups.end(), [at](const Holdup& holdup) {
        return holdup.process == at && holdup.waits_for != 0;
      });
      if (next == holdups.end()) break;
      path.push_back(*next);
      at = next->waits_for;
    }
    if (at == process && !path.empty()) return path;
  }
  return {};
}

}  // namespace mccl
