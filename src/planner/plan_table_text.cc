// The text of a plan table, as the bootstrap carries it and `mccl plan` prints it.
//
//   mccl-plan-table 1
//   ranks 24
//   profile paper
//   costs 306000 306000 1238000000 0 5000      alpha, high alpha, B, 1/gamma, o
//   portions 65536 65536 268435456             slice, F, park limit
//   uplinks 1                                  ports of a switch's uplink; 0: never the limit
//   switches 0*16 1*8                          switch of so many ranks; "switches" alone: one
//   algo ^tree                                 MCCL_ALGO; "algo" alone: not set
//   strict 0
//   canonical 0
//   fit auto                                   MCCL_ALGO_FIT
//   protocols ^ll                              MCCL_PROTO; "protocols" alone: not set
//   topology lab                               MCCL_TOPOLOGY; "topology" alone: not set
//   all_reduce 0 262145 all_reduce_recursive_doubling 786432 262144 65536 1 the reason in words
//   all_reduce 262145 max all_reduce_ring 458752 65536 65536 4 the reason in words
//   all_gather 0 max my_program 65536 65536 65536 1 the reason in words
//   all_gather or all_gather_ring 458752 65536 65536 4 the reason in words
//   broadcast none the reason in words
//   end 0123abcd                               FNV-1a of everything above
//
// The reader accepts exactly what the writer writes. Tests: plan_table_test.cc.
#include "planner/plan_table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/config.h"
#include "planner/algorithm_list.h"
#include "planner/plan_table.h"

namespace mccl {
namespace {

constexpr std::string_view kHeader = "mccl-plan-table 1";
constexpr size_t kTextBytesMax = size_t{1} << 20;
constexpr int kChannelSetsMax = 64;
constexpr int kRankCountMax = 1 << 20;
constexpr int64_t kWindowBytesMax = int64_t{1} << 40;

std::string bound_text(int64_t bytes) {
  return bytes == kBytesUnlimited ? "max" : std::to_string(bytes);
}

std::string optional_text(const std::string& text) {
  return text.empty() ? "" : " " + text;
}

std::string entry_text(const PlanEntry& entry) {
  return fmt::format("{} {} {} {} {} {}", entry.algorithm, entry.window_bytes, entry.slice_bytes,
                     entry.frame_bytes, entry.channel_sets, entry.reason);
}

// Reads lines and words; the first fault sticks and carries its line number.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool next_line() {
    if (rest_.empty() || !fault_.is_ok()) return false;
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return fail("ends without a line feed");
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    ++line_index_;
    return true;
  }

  std::string_view word(char separator = ' ') {
    const size_t end = std::min(line_.find(separator), line_.size());
    const std::string_view found = line_.substr(0, end);
    line_.remove_prefix(std::min(end + 1, line_.size()));
    return found;
  }

  std::string_view line() const { return line_; }
  bool at_end() const { return rest_.empty(); }

  int64_t number(std::string_view what, int64_t min, int64_t max, char separator = ' ') {
    const std::string_view digits = word(separator);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      fail(fmt::format("{} \"{}\" is not a whole number", what, digits));
    else if (value < min || value > max)
      fail(fmt::format("{} is {}, allowed are {} to {}", what, value, min, max));
    return fault_.is_ok() ? value : min;
  }

  // Always false, for `return fail(...)`.
  bool fail(const std::string& text) {
    if (fault_.is_ok())
      fault_ = Status(StatusCode::InvalidArgument,
                      fmt::format("plan table line {}: {}", line_index_, text));
    return false;
  }

  const Status& fault() const { return fault_; }

 private:
  std::string_view rest_;
  std::string_view line_;
  int line_index_ = 0;
  Status fault_;
};

bool expect_line(Reader& reader, std::string_view keyword) {
  if (!reader.next_line()) return reader.fail(fmt::format("\"{}\" is missing", keyword));
  const std::string_view found = reader.word();
  if (found != keyword)
    return reader.fail(fmt::format("\"{}\" where \"{}\" belongs", found, keyword));
  return true;
}

std::string switches_text(const std::vector<int>& switch_of_rank) {
  std::string text;
  for (size_t begin = 0; begin < switch_of_rank.size();) {
    size_t end = begin;
    while (end < switch_of_rank.size() && switch_of_rank[end] == switch_of_rank[begin]) ++end;
    text += fmt::format(" {}*{}", switch_of_rank[begin], end - begin);
    begin = end;
  }
  return text;
}

// The rest of the line: runs of ranks at one switch.
void read_switches(Reader& reader, PlanTable& table) {
  while (!reader.line().empty() && reader.fault().is_ok()) {
    const int place = static_cast<int>(reader.number("switch", 0, kRankCountMax, '*'));
    const auto count = static_cast<size_t>(reader.number("ranks of a switch", 1, kRankCountMax));
    if (table.switch_of_rank.size() + count > static_cast<size_t>(table.rank_count)) {
      reader.fail(fmt::format("more than {} ranks at switches", table.rank_count));
      return;
    }
    table.switch_of_rank.insert(table.switch_of_rank.end(), count, place);
  }
  const size_t count = table.switch_of_rank.size();
  if (count != 0 && count != static_cast<size_t>(table.rank_count))
    reader.fail(fmt::format("{} of {} ranks at switches", count, table.rank_count));
  if (!are_switches_in_order(table.switch_of_rank))
    reader.fail("switches are not numbered in the order of the ranks");
}

// The rest of the line, as the setting spells its value; empty: not set.
std::string read_setting(Reader& reader, std::string_view name, std::string Config::*field) {
  const std::string text(reader.line());
  const Result<Config> config = parse_config(Environment{{std::string(name), text}}, nullptr);
  if (!config.is_ok() || config.value().*field != text)
    reader.fail(fmt::format("\"{}\" is no value of {}", text, name));
  return text;
}

void read_settings(Reader& reader, std::span<const Algorithm* const> algorithms, PlanTable& table) {
  if (!expect_line(reader, "ranks")) return;
  table.rank_count = static_cast<int>(reader.number("rank count", 1, kRankCountMax));
  if (!expect_line(reader, "profile")) return;
  const std::optional<CostProfile> profile = find_cost_profile(reader.line());
  if (!profile || *profile == CostProfile::Auto) {
    reader.fail(fmt::format("no profile is called \"{}\"", reader.line()));
    return;
  }
  table.link.profile = *profile;
  if (!expect_line(reader, "costs")) return;
  LinkCosts& costs = table.link.costs;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  costs.alpha_ns = reader.number("alpha", 0, kAny);
  costs.alpha_high_ns = reader.number("high alpha", 0, kAny);
  costs.bytes_per_second = reader.number("B", 1, kAny);
  costs.gamma_bytes_per_second = reader.number("reduced bytes per second", 0, kAny);
  costs.overhead_ns = reader.number("overhead", 0, kAny);
  if (const Status status = check_link_costs(costs); !status.is_ok()) reader.fail(status.message());
  if (!expect_line(reader, "portions")) return;
  table.link.slice_bytes = reader.number("slice", kSliceBytesMin, kSliceBytesMax);
  if (table.link.slice_bytes % kCacheLineBytes != 0)
    reader.fail(
        fmt::format("slice {} is not a multiple of {}", table.link.slice_bytes, kCacheLineBytes));
  table.link.frame_bytes = reader.number("frame", kSliceBytesMin, kSliceBytesMax);
  table.park_limit_bytes = reader.number("park limit", 1, kWindowBytesMax);
  if (!expect_line(reader, "uplinks")) return;
  table.uplink_ports = static_cast<int>(reader.number("uplink ports", 0, kUplinkPortsMax));
  if (!expect_line(reader, "switches")) return;
  read_switches(reader, table);
  if (!expect_line(reader, "algo")) return;
  table.algo = std::string(reader.line());
  const Result<AlgorithmList> list = parse_algorithm_list(table.algo, algorithms);
  if (!list.is_ok())
    reader.fail(list.status().message());
  else if (to_string(list.value()) != table.algo)
    reader.fail(fmt::format("\"{}\" is not spelled \"{}\"", table.algo, to_string(list.value())));
  if (!expect_line(reader, "strict")) return;
  table.is_strict = reader.number("strict", 0, 1) == 1;
  if (!expect_line(reader, "canonical")) return;
  table.is_canonical = reader.number("canonical", 0, 1) == 1;
  if (!expect_line(reader, "fit")) return;
  if (reader.line() != "auto" && reader.line() != "strict")
    reader.fail(fmt::format("\"{}\" is neither auto nor strict", reader.line()));
  table.is_fit_strict = reader.line() == "strict";
  if (!expect_line(reader, "protocols")) return;
  table.protocols = read_setting(reader, "MCCL_PROTO", &Config::protocols);
  if (!expect_line(reader, "topology")) return;
  table.topology_name = read_setting(reader, "MCCL_TOPOLOGY", &Config::topology_name);
}

void check_algorithm(Reader& reader, std::span<const Algorithm* const> algorithms,
                     const PlanTable& table, Collective collective, std::string_view name) {
  const ProgramChoice choice = find_choice(name, algorithms);
  if (choice.algorithm == nullptr) {
    reader.fail(fmt::format("this build has no program \"{}\"", name));
  } else if (choice.algorithm->collective != collective) {
    reader.fail(fmt::format("{} does not compute {}", name, collective_name(collective)));
  } else if (const Status status = check_rank_count(choice, table.rank_count); !status.is_ok()) {
    reader.fail(fmt::format("{}: {}", name, status.message()));
  }
}

std::string read_reason(Reader& reader) {
  const std::string_view reason = reader.line();
  const bool is_printable = std::all_of(reason.begin(), reason.end(),
                                        [](char letter) { return letter >= ' ' && letter <= '~'; });
  if (reason.empty() || !is_printable) reader.fail("the reason is not printable text");
  return std::string(reason);
}

// The rest of a line from the algorithm on.
PlanEntry read_entry(Reader& reader, std::span<const Algorithm* const> algorithms,
                     const PlanTable& table, Collective collective) {
  PlanEntry entry;
  entry.algorithm = std::string(reader.word());
  check_algorithm(reader, algorithms, table, collective, entry.algorithm);
  entry.window_bytes = reader.number("window", 1, kWindowBytesMax);
  entry.slice_bytes = reader.number("slice", kCacheLineBytes, kSliceBytesMax);
  if (entry.slice_bytes % kCacheLineBytes != 0)
    reader.fail(
        fmt::format("slice {} is not a multiple of {}", entry.slice_bytes, kCacheLineBytes));
  entry.frame_bytes = reader.number("frame", kCacheLineBytes, kSliceBytesMax);
  entry.channel_sets = static_cast<int>(reader.number("channel sets", 1, kChannelSetsMax));
  entry.reason = read_reason(reader);
  return entry;
}

// The rest of a line after its collective.
void read_window(Reader& reader, std::span<const Algorithm* const> algorithms,
                 const PlanTable& table, CollectivePlan& plan) {
  if (!plan.rejection.empty()) {
    reader.fail("a window after \"none\"");
    return;
  }
  if (reader.line().starts_with("none ")) {
    reader.word();
    if (!plan.windows.empty()) reader.fail("\"none\" after a window");
    plan.rejection = read_reason(reader);
    return;
  }
  if (reader.line().starts_with("or ")) {
    reader.word();
    if (plan.windows.empty()) {
      reader.fail("\"or\" before a window");
      return;
    }
    plan.windows.back().others.push_back(read_entry(reader, algorithms, table, plan.collective));
    return;
  }
  PlanWindow window;
  window.begin_bytes = reader.number("begin", 0, kBytesUnlimited - 1);
  const int64_t begin_due = plan.windows.empty() ? 0 : plan.windows.back().end_bytes;
  if (window.begin_bytes != begin_due)
    reader.fail(fmt::format("the window begins at {}, the one before ended at {}",
                            window.begin_bytes, bound_text(begin_due)));
  if (reader.line().starts_with("max "))
    reader.word();
  else
    window.end_bytes = reader.number("end", window.begin_bytes + 1, kBytesUnlimited);
  window.entry = read_entry(reader, algorithms, table, plan.collective);
  plan.windows.push_back(std::move(window));
}

void check_complete(Reader& reader, const CollectivePlan& plan) {
  if (plan.windows.empty() || plan.windows.back().end_bytes == kBytesUnlimited) return;
  reader.fail(fmt::format("the windows of {} end at {}, not at max",
                          collective_name(plan.collective), plan.windows.back().end_bytes));
}

// Whether the line opened a collective or continued the one before.
bool enter_collective(Reader& reader, std::string_view name, PlanTable& table) {
  const std::optional<Collective> collective = find_collective(name);
  if (!collective) return reader.fail(fmt::format("no collective is called \"{}\"", name));
  if (!table.collectives.empty()) {
    if (table.collectives.back().collective == *collective) return true;
    check_complete(reader, table.collectives.back());
  }
  for (const CollectivePlan& plan : table.collectives)
    if (plan.collective == *collective) return reader.fail(fmt::format("{} appears twice", name));
  table.collectives.push_back({.collective = *collective, .windows = {}, .rejection = {}});
  return true;
}

}  // namespace

std::string write_plan_table(const PlanTable& table) {
  const LinkCosts& costs = table.link.costs;
  std::string text =
      fmt::format("{}\nranks {}\nprofile {}\ncosts {} {} {} {} {}\n", kHeader, table.rank_count,
                  cost_profile_name(table.link.profile), costs.alpha_ns, costs.alpha_high_ns,
                  costs.bytes_per_second, costs.gamma_bytes_per_second, costs.overhead_ns);
  text += fmt::format("portions {} {} {}\nuplinks {}\nswitches{}\n", table.link.slice_bytes,
                      table.link.frame_bytes, table.park_limit_bytes, table.uplink_ports,
                      switches_text(table.switch_of_rank));
  text += fmt::format("algo{}\nstrict {}\ncanonical {}\n", optional_text(table.algo),
                      table.is_strict ? 1 : 0, table.is_canonical ? 1 : 0);
  text += fmt::format("fit {}\nprotocols{}\ntopology{}\n", table.is_fit_strict ? "strict" : "auto",
                      optional_text(table.protocols), optional_text(table.topology_name));
  for (const CollectivePlan& plan : table.collectives) {
    const std::string_view name = collective_name(plan.collective);
    if (plan.windows.empty()) text += fmt::format("{} none {}\n", name, plan.rejection);
    for (const auto& [begin, end, entry, others] : plan.windows) {
      text += fmt::format("{} {} {} {}\n", name, begin, bound_text(end), entry_text(entry));
      for (const PlanEntry& other : others)
        text += fmt::format("{} or {}\n", name, entry_text(other));
    }
  }
  return text + fmt::format("end {:08x}\n", fnv1a(text));
}

Result<PlanTable> parse_plan_table(std::string_view text,
                                   std::span<const Algorithm* const> algorithms) {
  if (text.size() > kTextBytesMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("plan table: {} bytes, at most {}", text.size(), kTextBytesMax));
  Reader reader(text);
  PlanTable table;
  if (!reader.next_line() || reader.line() != kHeader)
    reader.fail(fmt::format("\"{}\" is missing", kHeader));
  read_settings(reader, algorithms, table);
  bool has_end = false;
  while (!has_end && reader.next_line()) {
    const std::string_view keyword = reader.word();
    has_end = keyword == "end";
    if (!has_end && enter_collective(reader, keyword, table))
      read_window(reader, algorithms, table, table.collectives.back());
  }
  if (!has_end) reader.fail("\"end\" is missing");
  if (!table.collectives.empty()) check_complete(reader, table.collectives.back());
  if (!reader.fault().is_ok()) return reader.fault();
  if (write_plan_table(table) != text)
    return Status(StatusCode::InvalidArgument,
                  "plan table: the checksum or the spelling of a line is wrong");
  return table;
}

}  // namespace mccl
