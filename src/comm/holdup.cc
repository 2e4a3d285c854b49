#include "comm/holdup.h"

#include <algorithm>
#include <cstring>

#include "transport/frame.h"

namespace mccl {
namespace {

struct PackedHoldup {
  uint64_t process;
  uint64_t waits_for;
  uint32_t text_bytes;
  uint32_t reserved;
};
static_assert(sizeof(PackedHoldup) == 24);
static_assert(kHoldupsMax * (sizeof(PackedHoldup) + kHoldupTextMax) <= kReportBytesMax);

}  // namespace

std::vector<std::byte> write_report(std::span<const Holdup> holdups) {
  std::vector<std::byte> report;
  for (const Holdup& holdup : holdups.first(std::min(holdups.size(), kHoldupsMax))) {
    const size_t text_bytes = std::min(holdup.text.size(), kHoldupTextMax);
    const PackedHoldup packed{holdup.process, holdup.waits_for, static_cast<uint32_t>(text_bytes),
                              0};
    const auto* head = reinterpret_cast<const std::byte*>(&packed);
    const auto* text = reinterpret_cast<const std::byte*>(holdup.text.data());
    report.insert(report.end(), head, head + sizeof(packed));
    report.insert(report.end(), text, text + text_bytes);
  }
  return report;
}

std::optional<std::vector<Holdup>> parse_report(std::span<const std::byte> report) {
  std::vector<Holdup> holdups;
  while (!report.empty()) {
    PackedHoldup packed;
    if (report.size() < sizeof(packed) || holdups.size() == kHoldupsMax) return std::nullopt;
    std::memcpy(&packed, report.data(), sizeof(packed));
    report = report.subspan(sizeof(packed));
    if (packed.text_bytes > std::min(report.size(), kHoldupTextMax)) return std::nullopt;
    holdups.push_back(
        {packed.process, packed.waits_for,
         std::string(reinterpret_cast<const char*>(report.data()), packed.text_bytes)});
    report = report.subspan(packed.text_bytes);
  }
  return holdups;
}

std::vector<Holdup> find_circle(uint64_t process, std::span<const uint64_t> first,
                                std::span<const Holdup> holdups) {
  for (uint64_t at : first) {
    std::vector<Holdup> path;
    while (at != process && path.size() < holdups.size()) {
      const auto next = std::find_if(holdups.begin(), holdups.end(),
                                     [at](const Holdup& holdup) { return holdup.process == at; });
      if (next == holdups.end() || next->waits_for == 0) break;
      path.push_back(*next);
      at = next->waits_for;
    }
    if (at == process && !path.empty()) return path;
  }
  return {};
}

}  // namespace mccl
