// Two hosts and a cable between them: network namespaces without a name, so that nothing is left
// behind, however a test ends. Linux, root and iproute2.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace mccl {

// A thread in a network namespace of its own. Sockets that run() makes stay in that namespace,
// whichever thread uses them later; so does a process that it forks.
class Host {
 public:
  Host();
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // Why there is no namespace; empty when there is one.
  const std::string& refusal() const { return refusal_; }
  int thread_id() const { return thread_id_; }

  // Calls `work` on the host's thread and waits for its end.
  void run(const std::function<void()>& work);

  // Runs "ip ARGUMENTS" there; aborts when that fails.
  void ip(const std::string& arguments);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  bool is_ending_ = false;
  bool is_ready_ = false;
  int thread_id_ = 0;
  std::string refusal_;
  std::thread thread_;  // the last member: it uses the others
};

class HostPair {
 public:
  static constexpr const char* kNearAddress = "10.213.90.1";
  static constexpr const char* kFarAddress = "10.213.90.2";

  HostPair();

  std::string refusal() const;
  Host& near() { return near_; }
  Host& far() { return far_; }

  void cut_cable() { far_.ip("link set eth0 down"); }
  void mend_cable() { far_.ip("link set eth0 up"); }

 private:
  Host near_;
  Host far_;
};

}  // namespace mccl
