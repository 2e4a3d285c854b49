#include "hosts/host_star.h"

#include <cstdlib>

#include "base/check.h"

namespace mccl {

namespace {

// An interface takes up to a second to notice that its cable is in, and loses packets until then.
void wait_for(Host& host, const std::string& interface, const std::string& state) {
  const std::string command = "for try in $(seq 5000); do ip -d link show " + interface +
                              " | grep -q '" + state + "' && exit 0; done; exit 1";
  host.run([&] { MCCL_CHECK_EQ(std::system(command.c_str()), 0); });
}

}  // namespace

HostStar::HostStar(int host_count) {
  for (int index = 0; index < host_count; ++index) hosts_.push_back(std::make_unique<Host>());
  if (!refusal().empty()) return;
  switch_.ip("link add bridge0 type bridge");
  switch_.ip("link set bridge0 up");
  for (size_t index = 0; index < hosts_.size(); ++index) {
    const std::string port = "port" + std::to_string(index);
    switch_.ip("link add " + port + " type veth peer name eth0 netns " +
               std::to_string(hosts_[index]->thread_id()));
    switch_.ip("link set " + port + " master bridge0 up");
    hosts_[index]->ip("address add " + address(index) + "/24 dev eth0");
    hosts_[index]->ip("link set eth0 up");
  }
  for (size_t index = 0; index < hosts_.size(); ++index) {
    wait_for(switch_, "port" + std::to_string(index), "state forwarding");
    wait_for(*hosts_[index], "eth0", "state UP");
  }
}

std::string HostStar::refusal() const {
  for (const auto& host : hosts_)
    if (!host->refusal().empty()) return host->refusal();
  return switch_.refusal();
}

}  // namespace mccl
