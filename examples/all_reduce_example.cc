// mccl without torch: ranks meet through mccl's own rendezvous and all-reduce buffers of growing
// size.
//
//   all_reduce_example                                     4 ranks, forked here
//   all_reduce_example --ranks 8                           8 of them
//   all_reduce_example --rank 1 --ranks 2 --master 192.168.1.7:29500
//                                                          one rank of two; rank 0's host is the
//                                                          master
//
// Prints a line per size: the median time of a call on rank 0 (measured here and now), the two
// bandwidths as nccl-tests defines them, and the program that served it. Every result is checked,
// element by element, on every rank.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mccl/communicator.h"
#include "mccl/rendezvous.h"

namespace {

constexpr int64_t kRendezvousNs = 60'000'000'000;
constexpr int kExitWrong = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNetwork = 3;

struct Arguments {
  int rank = -1;  // negative: fork all of them
  int rank_count = 4;
  std::string host = "127.0.0.1";
  int port = 0;
};

struct SizeCase {
  int64_t bytes;
  int call_count;
};
constexpr SizeCase kCases[] = {
    {8, 200}, {4 << 10, 200}, {64 << 10, 100}, {1 << 20, 40}, {16 << 20, 8}};

int report(int rank, const mccl::Status& status) {
  std::fprintf(stderr, "rank %d: %s\n", rank, status.to_string().c_str());
  return kExitNetwork;
}

// What rank `rank` contributes: whole numbers, so that sums are exact in any order.
float element_of(int rank, int64_t index) {
  return static_cast<float>(rank + 1 + index % 7);
}

bool is_sum_right(const std::vector<float>& sum, int rank_count) {
  for (size_t index = 0; index < sum.size(); ++index) {
    float expected = 0;
    for (int rank = 0; rank < rank_count; ++rank)
      expected += element_of(rank, static_cast<int64_t>(index));
    if (sum[index] != expected) {
      std::fprintf(stderr, "element %zu is %g, expected %g\n", index,
                   static_cast<double>(sum[index]), static_cast<double>(expected));
      return false;
    }
  }
  return true;
}

// The program that has served a call since `before` was taken.
std::string program_since(const mccl::CommunicatorStats& before,
                          const mccl::CommunicatorStats& after) {
  for (size_t row = 0; row < after.programs.size(); ++row) {
    const uint64_t old_calls = row < before.programs.size() ? before.programs[row].calls : 0;
    if (after.programs[row].collective == mccl::Collective::AllReduce &&
        after.programs[row].calls > old_calls)
      return after.programs[row].program;
  }
  return "none";
}

void print_line(const SizeCase& size, double us, int rank_count, const std::string& program) {
  const double gb_per_second = static_cast<double>(size.bytes) / us / 1e3;
  const double bus_factor = 2.0 * (rank_count - 1) / rank_count;
  std::printf("%10" PRId64 " %10.1f %12.3f %12.3f  %s\n", size.bytes, us, gb_per_second,
              gb_per_second * bus_factor, program.c_str());
  std::fflush(stdout);
}

int run_size(mccl::Communicator& group, const SizeCase& size) {
  const auto count = size.bytes / static_cast<int64_t>(sizeof(float));
  std::vector<float> input(static_cast<size_t>(count));
  std::vector<float> sum(input.size());
  for (int64_t index = 0; index < count; ++index)
    input[static_cast<size_t>(index)] = element_of(group.rank(), index);

  const mccl::CommunicatorStats before = group.stats();
  std::vector<double> times_us;
  for (int call = 0; call < size.call_count; ++call) {
    std::fill(sum.begin(), sum.end(), -1.0F);
    const auto start = std::chrono::steady_clock::now();
    auto work = group.all_reduce(input.data(), sum.data(), count, mccl::DataType::Float32,
                                 mccl::ReduceOp::Sum, {.will_wait = true});
    if (!work.is_ok()) return report(group.rank(), work.status());
    const mccl::Status status = work.value()->wait();
    if (!status.is_ok()) return report(group.rank(), status);
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    times_us.push_back(elapsed.count());
  }
  if (!is_sum_right(sum, group.rank_count())) return kExitWrong;

  const auto middle = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 2);
  std::nth_element(times_us.begin(), middle, times_us.end());
  if (group.rank() == 0)
    print_line(size, *middle, group.rank_count(), program_since(before, group.stats()));
  return 0;
}

int run_rank(const Arguments& arguments, bool is_server) {
  auto store = mccl::make_tcp_store(arguments.host, arguments.port, is_server, kRendezvousNs);
  if (!store.is_ok()) return report(arguments.rank, store.status());
  auto endpoint = mccl::Endpoint::create({.settings = {}, .master_address = arguments.host});
  if (!endpoint.is_ok()) return report(arguments.rank, endpoint.status());
  mccl::CommunicatorOptions options;
  options.timeout_ns = kRendezvousNs;
  auto group = mccl::Communicator::create(*endpoint.value(), *store.value(), arguments.rank,
                                          arguments.rank_count, options);
  if (!group.is_ok()) return report(arguments.rank, group.status());

  if (arguments.rank == 0) {
    std::printf("%10s %10s %12s %12s  %s\n", "bytes", "us", "algbw GB/s", "busbw GB/s", "program");
  }
  for (const SizeCase& size : kCases) {
    const int exit_code = run_size(*group.value(), size);
    if (exit_code != 0) return exit_code;
  }
  // Nobody leaves while others still check.
  auto barrier = group.value()->barrier();
  if (!barrier.is_ok()) return report(arguments.rank, barrier.status());
  const mccl::Status status = barrier.value()->wait();
  return status.is_ok() ? 0 : report(arguments.rank, status);
}

// In a forked child: learns the store's port through the pipe, which the parent writes when it
// serves.
int run_forked_rank(Arguments arguments, int rank, int port_pipe) {
  if (::read(port_pipe, &arguments.port, sizeof arguments.port) != sizeof arguments.port)
    return kExitNetwork;
  arguments.rank = rank;
  return run_rank(arguments, false);
}

int wait_for_children(const std::vector<pid_t>& children) {
  int worst = 0;
  for (const pid_t child : children) {
    int state = 0;
    if (::waitpid(child, &state, 0) != child) return kExitNetwork;
    worst = std::max(worst, WIFEXITED(state) ? WEXITSTATUS(state) : kExitNetwork);
  }
  return worst;
}

// The children come first: a process with threads, as the store's server is, is not to be forked.
int run_all(const Arguments& arguments) {
  int port_pipe[2];
  if (::pipe(port_pipe) != 0) {
    std::perror("pipe");
    return kExitNetwork;
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < arguments.rank_count; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) {
      std::perror("fork");
      break;
    }
    if (child == 0) {
      ::close(port_pipe[1]);  // so that the parent's end is the last one
      const int exit_code = run_forked_rank(arguments, rank, port_pipe[0]);
      std::fflush(stdout);
      ::_exit(exit_code);
    }
    children.push_back(child);
  }
  ::close(port_pipe[0]);
  std::unique_ptr<mccl::StoreServer> server;
  if (static_cast<int>(children.size()) == arguments.rank_count) {
    auto made = mccl::StoreServer::create(arguments.host, 0);
    if (made.is_ok()) {
      server = std::move(made).value();
      const std::vector<int> ports(children.size(), server->port());
      const size_t bytes = ports.size() * sizeof(int);
      if (::write(port_pipe[1], ports.data(), bytes) != static_cast<ssize_t>(bytes))
        std::perror("write");
    } else {
      (void)report(-1, made.status());
    }
  }
  ::close(port_pipe[1]);  // a child that has no port reads the end and leaves
  return wait_for_children(children);
}

bool parse_number(std::string_view text, int min, int max, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= min &&
         *number <= max;
}

bool parse_master(std::string_view text, Arguments* arguments) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  arguments->host = text.substr(0, colon);
  return parse_number(text.substr(colon + 1), 1, 65535, &arguments->port);
}

bool parse_arguments(int count, char** words, Arguments* arguments) {
  for (int index = 1; index < count; index += 2) {
    const std::string_view name = words[index];
    if (index + 1 == count) return false;
    const std::string_view value = words[index + 1];
    bool is_known = false;
    if (name == "--rank") is_known = parse_number(value, 0, 63, &arguments->rank);
    if (name == "--ranks") is_known = parse_number(value, 1, 64, &arguments->rank_count);
    if (name == "--master") is_known = parse_master(value, arguments);
    if (!is_known) return false;
  }
  // A single rank needs to know where the others are.
  return arguments->rank < arguments->rank_count && (arguments->rank < 0) == (arguments->port == 0);
}

}  // namespace

int main(int argument_count, char** argument_words) {
  Arguments arguments;
  if (!parse_arguments(argument_count, argument_words, &arguments)) {
    std::fprintf(stderr,
                 "usage: %s [--ranks N]\n"
                 "       %s --rank R --ranks N --master HOST:PORT\n",
                 argument_words[0], argument_words[0]);
    return kExitUsage;
  }
  return arguments.rank < 0 ? run_all(arguments) : run_rank(arguments, arguments.rank == 0);
}
