#include "hosts/host_pair.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/check.h"

namespace mccl {

Host::Host() : thread_([this] { serve(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ready_; });
}

Host::~Host() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Host::serve() {
  std::unique_lock lock(mutex_);
  thread_id_ = ::gettid();
  if (::unshare(CLONE_NEWNET) != 0)
    refusal_ = "no network namespace: " + std::generic_category().message(errno);
  else if (std::system("ip link set lo up 2>/dev/null") != 0)
    refusal_ = "iproute2 is missing";
  is_ready_ = true;
  changed_.notify_all();
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || work_ != nullptr; });
    if (work_ == nullptr) return;
    (*work_)();
    work_ = nullptr;
    changed_.notify_all();
  }
}

void Host::run(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  MCCL_CHECK(work_ == nullptr);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr; });
}

void Host::ip(const std::string& arguments) {
  run([&] { MCCL_CHECK_EQ(std::system(("ip " + arguments).c_str()), 0); });
}

HostPair::HostPair() {
  if (!refusal().empty()) return;
  near_.ip("link add eth0 type veth peer name eth0 netns " + std::to_string(far_.thread_id()));
  near_.ip(std::string("address add ") + kNearAddress + "/24 dev eth0");
  far_.ip(std::string("address add ") + kFarAddress + "/24 dev eth0");
  near_.ip("link set eth0 up");
  far_.ip("link set eth0 up");
}

std::string HostPair::refusal() const {
  return near_.refusal().empty() ? far_.refusal() : near_.refusal();
}

}  // namespace mccl
