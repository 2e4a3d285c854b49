#include "mccl/status.h"

namespace mccl {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::Ok:
      return "ok";
    case StatusCode::InvalidArgument:
      return "invalid argument";
    case StatusCode::Unsupported:
      return "unsupported";
    case StatusCode::NotProven:
      return "not proven";
    case StatusCode::Mismatch:
      return "mismatch";
    case StatusCode::Network:
      return "network";
    case StatusCode::PeerLost:
      return "peer lost";
    case StatusCode::Timeout:
      return "timeout";
    case StatusCode::Aborted:
      return "aborted";
    case StatusCode::Internal:
      return "internal";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message, int rank, int peer) {
  if (code == StatusCode::Ok) return;
  detail_ = std::make_shared<const Detail>(Detail{code, std::move(message), rank, peer});
}

const std::string& Status::message() const {
  static const std::string empty;
  return detail_ ? detail_->message : empty;
}

std::string Status::to_string() const {
  if (is_ok()) return "ok";
  return std::string(status_code_name(code())) + ": " + message();
}

}  // namespace mccl
