#include "hosts/stopped_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/check.h"
#include "conformance/wire_pump.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

struct ReadEnd {
  std::unique_ptr<Wire> wire;
  uint64_t bytes = 0;
};

// All that is there now; what is wrong or at its end ends the process.
uint64_t drain(ReadEnd& end, std::vector<char>& buffer) {
  const uint64_t before = end.bytes;
  while (true) {
    const Result<size_t> got = read_bytes(*end.wire, buffer.data(), buffer.size());
    if (!got.is_ok() || got.value() == 0) return end.bytes - before;
    MCCL_CHECK_EQ(std::memcmp(buffer.data(), pattern_at(end.bytes), got.value()), 0);
    end.bytes += got.value();
  }
}

[[noreturn]] void read_for_ever(const std::string& listen_address, uint64_t report_bytes,
                                int reports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  TcpOptions options;
  options.listen_address = listen_address;
  const std::unique_ptr<WireContext> context = make_tcp_context(options).value();
  std::array<char, 64> address{};
  std::memcpy(address.data(), context->address().data(), context->address().size());
  MCCL_CHECK_EQ(::write(reports, address.data(), address.size()), ssize_t{64});
  std::map<uint64_t, ReadEnd> ends;
  std::vector<char> buffer(kPieceBytesMax);
  uint64_t sum_bytes = 0;
  while (true) {
    std::vector<WireEvent> events;
    context->poll(-1, events);
    while (std::unique_ptr<Wire> wire = context->accept(ends.size()))
      ends[ends.size()].wire = std::move(wire);
    const uint64_t before_reports = sum_bytes / report_bytes;
    for (auto& [token, end] : ends) sum_bytes += drain(end, buffer);
    if (sum_bytes / report_bytes > before_reports)
      MCCL_CHECK_EQ(::write(reports, &sum_bytes, sizeof sum_bytes), ssize_t{sizeof sum_bytes});
  }
}

}  // namespace

ReaderProcess::ReaderProcess(Host& host, const std::string& listen_address, uint64_t report_bytes) {
  std::array<int, 2> ends{};
  MCCL_CHECK_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  reports_ = FileDescriptor(ends[0]);
  FileDescriptor written(ends[1]);
  (void)pattern();  // made once, before the fork
  host.run([&] {
    process_ = ::fork();
    if (process_ == 0) read_for_ever(listen_address, report_bytes, written.number());
  });
  MCCL_CHECK_LT(0, process_);
  written.close();
  std::array<char, 64> address{};
  MCCL_CHECK_EQ(::read(reports_.number(), address.data(), address.size()), ssize_t{64});
  address_ = address.data();
  MCCL_CHECK_EQ(::fcntl(reports_.number(), F_SETFL, O_NONBLOCK), 0);
}

ReaderProcess::~ReaderProcess() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void ReaderProcess::stop() {
  MCCL_CHECK_EQ(::kill(process_, SIGSTOP), 0);
  int status = 0;
  MCCL_CHECK_EQ(::waitpid(process_, &status, WUNTRACED), process_);
  MCCL_CHECK(WIFSTOPPED(status));
}

void ReaderProcess::go_on() {
  MCCL_CHECK_EQ(::kill(process_, SIGCONT), 0);
}

uint64_t ReaderProcess::read_bytes() {
  uint64_t told_bytes = 0;
  ssize_t got = 0;
  while ((got = ::read(reports_.number(), &told_bytes, sizeof told_bytes)) > 0)
    read_bytes_ = told_bytes;
  MCCL_CHECK(got < 0);  // 0: the process has ended
  return read_bytes_;
}

}  // namespace mccl
