#include "perf/launcher.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "verb/verb.h"

namespace mccl {
namespace {

constexpr int kPortMax = 65'535;
constexpr int kRanksMax = 1 << 20;
// torch's default, where a launcher names none.
constexpr int kPortDefault = 29'500;

struct LauncherRow {
  std::string_view name;
  std::string_view rank;
  std::string_view rank_count;
  std::string_view local_count;  // empty: it says none
};
// A process that torchrun started under mpirun is torchrun's.
constexpr std::array kLaunchers = {
    LauncherRow{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    LauncherRow{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_SIZE"},
    LauncherRow{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

std::string_view value_of(EnvironmentView environment, std::string_view name) {
  for (const auto& [key, value] : environment)
    if (key == name) return value;
  return {};
}

Result<int> number_of(EnvironmentView environment, std::string_view name, int least, int most) {
  const std::string_view text = value_of(environment, name);
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most)
    return wrong_usage(fmt::format("{}={}: allowed are {} to {}", name, text, least, most));
  return value;
}

Status find_rendezvous(EnvironmentView environment, const LauncherRow& row, LaunchPlace& place) {
  place.host = value_of(environment, "MASTER_ADDR");
  if (place.host.empty()) {
    const bool is_local = !row.local_count.empty() && value_of(environment, row.local_count) ==
                                                          value_of(environment, row.rank_count);
    if (!is_local)
      return wrong_usage(fmt::format(
          "{} does not say where ranks meet: set MASTER_ADDR, the address of rank 0, and "
          "MASTER_PORT for every rank (mpirun -x MASTER_ADDR=10.0.0.1 -x MASTER_PORT=29500)",
          row.name));
    place.host = "127.0.0.1";
  }
  place.port = kPortDefault;
  if (!value_of(environment, "MASTER_PORT").empty()) {
    const Result<int> port = number_of(environment, "MASTER_PORT", 1, kPortMax);
    if (!port.is_ok()) return port.status();
    place.port = port.value();
  }
  if (value_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True")
    place.port = place.port == kPortMax ? place.port - 1 : place.port + 1;
  return Status::ok();
}

}  // namespace

Result<std::optional<LaunchPlace>> find_launch_place(EnvironmentView environment) {
  for (const LauncherRow& row : kLaunchers) {
    const bool has_rank = !value_of(environment, row.rank).empty();
    const bool has_count = !value_of(environment, row.rank_count).empty();
    if (!has_rank && !has_count) continue;
    if (!has_rank || !has_count)
      return wrong_usage(fmt::format("{} is set and {} is not: set both, or neither",
                                     has_rank ? row.rank : row.rank_count,
                                     has_rank ? row.rank_count : row.rank));
    LaunchPlace place{.launcher = std::string(row.name)};
    const Result<int> rank_count = number_of(environment, row.rank_count, 1, kRanksMax);
    if (!rank_count.is_ok()) return rank_count.status();
    const Result<int> rank = number_of(environment, row.rank, 0, rank_count.value() - 1);
    if (!rank.is_ok()) return rank.status();
    place.rank = rank.value();
    place.rank_count = rank_count.value();
    MCCL_RETURN_IF_ERROR(find_rendezvous(environment, row, place));
    return std::optional(place);
  }
  return std::optional<LaunchPlace>();
}

}  // namespace mccl
