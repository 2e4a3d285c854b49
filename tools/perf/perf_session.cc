#include "perf/perf_session.h"

#include <fmt/format.h>

#include <memory>

#include "mccl/rendezvous.h"
#include "perf/local_ranks.h"

namespace mccl {
namespace {

constexpr int kLocalRanksDefault = 2;
// The server of local ranks is there before any of them learns its port.
constexpr int64_t kLocalConnectNs = 60'000'000'000;

Result<PerfOutcome> run_launched(const PerfOptions& options, const Environment& settings,
                                 const LaunchPlace& launch, const PerfListener& listener) {
  const Result<Config> config = parse_config(settings, nullptr);
  if (!config.is_ok()) return config.status();
  const Result<std::shared_ptr<Store>> store =
      make_tcp_store(launch.host, launch.port, launch.rank == 0, config.value().timeout_ns);
  if (!store.is_ok()) return store.status();
  const PerfPlace place{.rank = launch.rank,
                        .rank_count = launch.rank_count,
                        .master_address = launch.host,
                        .settings = settings};
  return run_perf_rank(options, place, *store.value(), listener);
}

Result<PerfOutcome> run_local_rank(const PerfOptions& options, PerfPlace place, int port,
                                   const PerfListener& listener) {
  const Result<std::shared_ptr<Store>> store =
      make_tcp_store(kLocalHost, port, false, kLocalConnectNs);
  if (!store.is_ok()) return store.status();
  place.master_address = kLocalHost;
  return run_perf_rank(options, place, *store.value(), listener);
}

Result<PerfOutcome> run_local(const PerfOptions& options, const Environment& settings,
                              int rank_count, const PerfListener& listener) {
  Result<std::unique_ptr<LocalRanks>> ranks = LocalRanks::start(
      rank_count, [&](int rank, int port, const std::function<bool()>& interrupted) -> Status {
        const PerfPlace place{.rank = rank,
                              .rank_count = rank_count,
                              .master_address = {},
                              .settings = settings,
                              .interrupted = interrupted};
        return run_local_rank(options, place, port, {.choose_sizes = listener.choose_sizes})
            .status();
      });
  if (!ranks.is_ok()) return ranks.status();
  const PerfPlace place{.rank = 0,
                        .rank_count = rank_count,
                        .master_address = {},
                        .settings = settings,
                        .interrupted = [&] { return ranks.value()->has_failed(); }};
  Result<PerfOutcome> outcome = run_local_rank(options, place, ranks.value()->port(), listener);
  // Aborted: by another rank's error, which it can tell better. Otherwise its error follows from
  // this one.
  if (!outcome.is_ok() && outcome.status().code() != StatusCode::Aborted) return outcome;
  const Status others = ranks.value()->finish();
  if (!others.is_ok()) return others;
  return outcome;
}

}  // namespace

Result<PerfSeat> find_perf_seat(PerfOptions& options, EnvironmentView launch_environment) {
  const Result<std::optional<LaunchPlace>> launch = find_launch_place(launch_environment);
  if (!launch.is_ok()) return launch.status();
  PerfSeat seat{.launch = launch.value(),
                .rank_count = options.rank_count > 0 ? options.rank_count : kLocalRanksDefault};
  if (!seat.launch) return seat;
  seat.rank_count = seat.launch->rank_count;
  if (options.rank_count > 0)
    options.notices.push_back(
        fmt::format("{} says that there are {} ranks: --ranks, -t and -g have no effect",
                    seat.launch->launcher, seat.rank_count));
  return seat;
}

Result<PerfOutcome> run_perf_session(const PerfOptions& options, const Environment& settings,
                                     const PerfSeat& seat, const PerfListener& listener,
                                     const ChooseSizes& choose_sizes) {
  PerfListener all = listener;
  all.choose_sizes = choose_sizes;
  return seat.launch ? run_launched(options, settings, *seat.launch, all)
                     : run_local(options, settings, seat.rank_count, all);
}

}  // namespace mccl
