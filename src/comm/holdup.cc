#include "comm/holdup.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "transport/frame.h"

namespace mccl {
namespace {

struct PackedHoldup {
  uint64_t process;
  uint64_t communicator;
  uint64_t version;
  uint64_t posted_count;
  uint64_t waits_in;
  uint64_t waits_number;
  uint32_t age_ms;
  uint16_t name_bytes;
  uint16_t text_bytes;
  uint16_t is_busy;
  uint16_t is_silent;
  uint32_t waits_for_count;
};
static_assert(sizeof(PackedHoldup) == 64);
static_assert(kHoldupsMax *
                  (sizeof(PackedHoldup) + kHoldupTextMax + kWaitsForMax * sizeof(uint64_t)) <=
              kReportBytesMax);
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
    const size_t waits_for_count = std::min(holdup.waits_for.size(), kWaitsForMax);
    const TimeNs age_ms = std::clamp<TimeNs>((now - holdup.said_at) / kNsPerMs, 0, kAgeMaxMs);
    const PackedHoldup packed{holdup.process,
                              holdup.communicator,
                              holdup.version,
                              holdup.posted_count,
                              holdup.waits_in,
                              holdup.waits_number,
                              static_cast<uint32_t>(age_ms),
                              static_cast<uint16_t>(name_bytes),
                              static_cast<uint16_t>(text_bytes),
                              holdup.is_busy,
                              holdup.is_silent,
                              static_cast<uint32_t>(waits_for_count)};
    append(report, &packed, sizeof(packed));
    append(report, holdup.waits_for.data(), waits_for_count * sizeof(uint64_t));
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
    if (words > kHoldupTextMax || packed.waits_for_count > kWaitsForMax || packed.is_busy > 1 ||
        packed.is_silent > 1 || packed.age_ms > kAgeMaxMs)
      return std::nullopt;
    const size_t waits_for_bytes = packed.waits_for_count * sizeof(uint64_t);
    if (waits_for_bytes + words > report.size()) return std::nullopt;
    Holdup& holdup = holdups.emplace_back();
    holdup.process = packed.process;
    holdup.communicator = packed.communicator;
    holdup.version = packed.version;
    holdup.posted_count = packed.posted_count;
    holdup.waits_in = packed.waits_in;
    holdup.waits_number = packed.waits_number;
    if (waits_for_bytes > 0) {
      holdup.waits_for.resize(packed.waits_for_count);
      std::memcpy(holdup.waits_for.data(), report.data(), waits_for_bytes);
    }
    report = report.subspan(waits_for_bytes);
    holdup.is_busy = packed.is_busy == 1;
    holdup.is_silent = packed.is_silent == 1;
    holdup.said_at = now - packed.age_ms * kNsPerMs;
    holdup.name = take_text(report, packed.name_bytes);
    holdup.text = take_text(report, packed.text_bytes);
  }
  return holdups;
}

// Breadth first: the waits are a graph, since a rank may wait for several.
std::vector<Holdup> find_circle(const AwaitedPeers& start, std::span<const Holdup> holdups,
                                const std::function<bool(uint64_t, uint64_t)>& is_absent) {
  struct Step {
    const Holdup* holdup;
    size_t from;       // the step before it
    bool has_absence;  // on the way here
  };
  constexpr size_t kStart = SIZE_MAX;
  std::vector<Step> steps;
  std::set<std::pair<const Holdup*, bool>> seen;  // with an absence on the way, and without
  const auto reach = [&](uint64_t process, uint64_t communicator, uint64_t number, size_t from) {
    for (const Holdup& holdup : holdups) {
      if (holdup.process != process || holdup.communicator != communicator ||
          holdup.waits_for.empty())
        continue;
      const bool has_absence = (from != kStart && steps[from].has_absence) ||
                               holdup.waits_in != communicator || holdup.posted_count <= number;
      if (seen.insert({&holdup, has_absence}).second) steps.push_back({&holdup, from, has_absence});
    }
  };
  const auto closes = [&](const Step& step) {
    const Holdup& last = *step.holdup;
    if (std::find(last.waits_for.begin(), last.waits_for.end(), start.process) ==
        last.waits_for.end())
      return false;
    return is_absent(last.waits_in, last.waits_number) ||
           (step.has_absence && last.waits_in == start.communicator &&
            last.waits_number == start.number);
  };
  for (const uint64_t peer : start.peers) reach(peer, start.communicator, start.number, kStart);
  for (size_t index = 0; index < steps.size(); ++index) {
    if (!closes(steps[index])) {
      const Holdup& at = *steps[index].holdup;
      for (const uint64_t next : at.waits_for) reach(next, at.waits_in, at.waits_number, index);
      continue;
    }
    std::vector<Holdup> circle;
    for (size_t at = index; at != kStart; at = steps[at].from) circle.push_back(*steps[at].holdup);
    std::reverse(circle.begin(), circle.end());
    return circle;
  }
  return {};
}

}  // namespace mccl
