// Texts that people and other ranks write: a plan table, a list of program files, measured times.
// Any bytes are refused in words, or are read; a plan table survives writing and reading.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "fit/perf_file.h"
#include "ir/program_list.h"
#include "planner/plan_table.h"
#include "planner/plan_table_text.h"

namespace mccl {
namespace {

// With a last line that is right, so that what is before it is read.
std::string sealed(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string whole(text.substr(0, text.rfind("end ")));
  const uint32_t sum = fnv1a(whole);
  whole += "end ";
  for (int shift = 28; shift >= 0; shift -= 4) whole += kDigits[(sum >> shift) & 15U];
  return whole + "\n";
}

void check_plan_table(std::string_view text) {
  const Result<PlanTable> table = parse_plan_table(text);
  if (!table.is_ok()) {
    MCCL_CHECK(table.status().code() == StatusCode::InvalidArgument);
    MCCL_CHECK(!table.status().message().empty());
    return;
  }
  const std::string written = write_plan_table(table.value());
  MCCL_CHECK_EQ(written, std::string(text));
}

void check_program_list(std::string_view text) {
  const ProgramListResult list = read_program_list(text);
  MCCL_CHECK_LE(list.entries.size(), static_cast<size_t>(kProgramListMax));
  for (const XmlFault& fault : list.faults)
    MCCL_CHECK(fault.line >= 1 && fault.column >= 1 && !fault.text.empty());
  if (!list.is_ok()) return;
  for (const ProgramListEntry& entry : list.entries)
    MCCL_CHECK(entry.begin_bytes >= 0 && entry.begin_bytes < entry.end_bytes);
}

void check_perf_file(std::string_view text) {
  const Result<std::vector<PerfRow>> rows = parse_perf_file(text, "perf.txt", 2);
  if (!rows.is_ok()) {
    MCCL_CHECK(!rows.status().message().empty());
    return;
  }
  for (const PerfRow& row : rows.value())
    MCCL_CHECK(row.rank_count > 0 && row.bytes > 0 && row.time_us > 0);
}

}  // namespace
}  // namespace mccl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  mccl::check_plan_table(text);
  mccl::check_plan_table(mccl::sealed(text));
  mccl::check_program_list(text);
  mccl::check_perf_file(text);
  return 0;
}
