#include <utility>

#include "comm/endpoint_core.h"

namespace mccl {

Endpoint::Endpoint(std::unique_ptr<EndpointCore> core) : core_(std::move(core)) {}

Endpoint::~Endpoint() = default;

Result<std::unique_ptr<Endpoint>> Endpoint::create(const EndpointOptions& options) {
  Result<std::unique_ptr<EndpointCore>> core = EndpointCore::create(options);
  if (!core.is_ok()) return core.status();
  return std::make_unique<Endpoint>(std::move(core).value());
}

Result<std::string> Endpoint::write_dump(const std::string& path) {
  return core_->write_dump(path);
}

std::string Endpoint::address() const {
  return core_->record().peer.address;
}

}  // namespace mccl
