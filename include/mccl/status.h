// Operating errors as values. A Status is empty when all is well; otherwise it carries a code, a
// message, and, where they are known, the rank that reports it and the peer that it is about.
//
// Programmer errors are not Statuses: MCCL_CHECK (src/base/check.h) aborts with both values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace mccl {

// What went wrong, and what its reader can do about it.
enum class StatusCode : uint8_t {
  Ok,
  InvalidArgument,  // the call is wrong: fix the call
  Unsupported,  // the call is legal, this build does not serve it: the message names what it does
  NotProven,    // the verifier refused the program: the message holds the counter-example
  Mismatch,     // two ranks made different calls, or run with different settings
  Network,      // an address, a socket or the store failed
  PeerLost,     // a peer closed its connection or vanished
  Timeout,      // a deadline passed: the message names who was waited for
  Aborted,      // the communicator was aborted or destroyed, or the wait was interrupted
  Internal,     // a promise between our own parts was broken
};

// The spelling used in messages and logs, for example "peer lost".
const char* status_code_name(StatusCode code);

// A value. Copying is cheap (one shared pointer); the empty state allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, int rank = -1, int peer = -1);

  static Status ok() { return {}; }

  bool is_ok() const { return detail_ == nullptr; }
  StatusCode code() const { return detail_ ? detail_->code : StatusCode::Ok; }
  // Without the code's name; empty when ok.
  const std::string& message() const;
  int rank() const { return detail_ ? detail_->rank : -1; }
  int peer() const { return detail_ ? detail_->peer : -1; }
  // "peer lost: rank 2 closed its connection ...", or "ok".
  std::string to_string() const;

 private:
  struct Detail {
    StatusCode code;
    std::string message;
    int rank;
    int peer;
  };
  std::shared_ptr<const Detail> detail_;  // shared: the first error is what every waiter reports
};

// Either a value or a Status that is not ok.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) {}

  bool is_ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return is_ok() ? Status::ok() : std::get<Status>(state_); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T value() && { return std::get<T>(std::move(state_)); }  // by value: a temporary's cannot dangle

 private:
  std::variant<T, Status> state_;
};

// Leaves the enclosing function with the Status of `expression` unless it is ok.
#define MCCL_RETURN_IF_ERROR(expression)        \
  do {                                          \
    ::mccl::Status mccl_status_ = (expression); \
    if (!mccl_status_.is_ok()) [[unlikely]]     \
      return mccl_status_;                      \
  } while (false)

}  // namespace mccl
