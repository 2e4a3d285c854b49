// A process that reads what comes and can be stopped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "hosts/host_pair.h"
#include "transport/socket.h"

namespace mccl {

class ReaderProcess {
 public:
  // Forks on `host`. The process listens on `listen_address`, accepts every connection, reads all
  // of them, checks that byte p of each is pattern_at(p), and tells when the sum of what it has
  // read reaches a multiple of `report_bytes`.
  ReaderProcess(Host& host, const std::string& listen_address, uint64_t report_bytes);
  ~ReaderProcess();  // kills it
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  const std::string& address() const { return address_; }
  void stop();  // returns when it has stopped
  void go_on();

  // How many bytes it has told to have read; never blocks. Aborts when it has found a wrong byte.
  uint64_t read_bytes();

 private:
  pid_t process_ = -1;
  FileDescriptor reports_;
  std::string address_;
  uint64_t read_bytes_ = 0;
};

}  // namespace mccl
