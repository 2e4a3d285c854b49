#include "comm/endpoint_core.h"

#include <limits.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <utility>

#include "base/secret.h"
#include "base/wall_time.h"
#include "comm/communicator_core.h"
#include "transport/interfaces.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

constexpr const char* kVersion = "0.1.0";

// Random numbers that differ between processes and runs; nobody needs to repeat these.
uint64_t make_random_number() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "unknown";
}

// The same for processes that share a kernel, and so its cores.
std::string kernel_id() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return boot_id.empty() ? host_name() : boot_id;
}

// The same for processes that share a kernel and its network, so that containers and network
// namespaces of one machine count as hosts of their own.
std::string host_id() {
  char network[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", network, sizeof(network) - 1);
  return host_name() + " " + kernel_id() + " " + (length > 0 ? network : "");
}

// The numeric form of a host name, or nothing: choosing an interface then goes by its own rules.
std::string resolve(const std::string& host) {
  if (host.empty()) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  char text[NI_MAXHOST] = {};
  const int status = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0,
                                 NI_NUMERICHOST);
  freeaddrinfo(found);
  return status == 0 ? text : "";
}

// A rendezvous on loopback means that every rank is on this host.
Result<InterfaceAddress> choose_address(const std::vector<InterfaceAddress>& interfaces,
                                        const std::string& pattern, const std::string& master) {
  const bool is_local = master.starts_with("127.") || master == "::1";
  if (pattern.empty() && is_local)
    for (const InterfaceAddress& one : interfaces)
      if (one.address == master || (one.is_loopback && !one.is_ipv6)) return one;
  return choose_interface(interfaces, pattern, master);
}

}  // namespace

EndpointCore::EndpointCore(const Config& config, std::unique_ptr<Clock> clock,
                           std::unique_ptr<WireContext> wires)
    : config_(config),
      logger_(config.log_level, "mccl"),
      own_clock_(std::move(clock)),
      own_wires_(std::move(wires)) {}

EndpointCore::~EndpointCore() {
  if (is_own_process()) return;
  // A forked child has no thread to join, and what it removed from the poller would be the
  // parent's.
  (void)dumps_.release();
  (void)driver_.release();
  (void)engine_.release();
  (void)own_wires_.release();
  (void)own_clock_.release();
}

void EndpointCore::start(WireContext& wires, const Clock& clock, uint64_t process_id,
                         uint64_t token, bool has_thread) {
  wires_ = &wires;
  if (library_ == nullptr) {
    library_ = std::make_shared<ProgramLibrary>(config_);
    for (const std::string& notice : library_->notices()) logger_.info(notice);
  }
  record_.programs = library_->digest();
  record_.program_files = library_->files();
  record_.peer = {process_id, token, wires.address()};
  record_.pid = getpid();
  record_.switch_name = config_.switch_name;
  record_.settings = job_settings_text(config_);
  record_.version = kVersion;
  utsname system{};
  if (uname(&system) == 0)
    record_.manifest = {{"operating system", system.sysname}, {"processor", system.machine}};
  engine_ = std::make_unique<Engine>(
      wires, clock, device_, logger_,
      Identity{.process_id = process_id,
               .token = token,
               .secret = config_.secret,
               .nonces = has_thread ? random_nonces() : seeded_nonces(process_id)},
      "host " + record_.host_name + ", pid " + std::to_string(record_.pid));
  driver_ = std::make_unique<Driver>(*engine_, wires, has_thread);
}

Result<std::unique_ptr<EndpointCore>> EndpointCore::create(const EndpointOptions& options) {
  std::vector<std::string> warnings;
  const Environment environment =
      options.settings.empty() ? read_environment() : Environment(options.settings);
  Result<Config> config = parse_config(environment, &warnings);
  if (!config.is_ok()) return config.status();
  Result<std::string> secret = read_secret(config.value());
  if (!secret.is_ok()) return secret.status();
  config.value().secret = secret.value();
  const Logger logger(config.value().log_level, "mccl");
  for (const std::string& warning : warnings) logger.warning(warning);

  Result<std::vector<InterfaceAddress>> interfaces = list_interfaces();
  if (!interfaces.is_ok()) return interfaces.status();
  Result<InterfaceAddress> chosen = choose_address(
      interfaces.value(), config.value().socket_interfaces, resolve(options.master_address));
  if (!chosen.is_ok()) return chosen.status();
  TcpOptions tcp;
  tcp.listen_address = chosen.value().address;
  tcp.port_first = config.value().port_first;
  tcp.port_last = config.value().port_last;
  tcp.socket_buffer_bytes = static_cast<int>(config.value().socket_buffer_bytes);
  tcp.peer_timeout_ns = config.value().peer_timeout_ns;
  Result<std::unique_ptr<WireContext>> wires = make_tcp_context(tcp);
  if (!wires.is_ok()) return wires.status();

  std::unique_ptr<EndpointCore> core(
      new EndpointCore(config.value(), std::make_unique<SystemClock>(), std::move(wires).value()));
  core->record_.host_name = host_name();
  core->record_.host_id = host_id();
  core->record_.kernel_id = kernel_id();
  core->interface_text_ = chosen.value().name + " " + chosen.value().address;
  core->start(*core->own_wires_, *core->own_clock_, make_random_number(), make_random_number(),
              true);
  std::vector<std::pair<std::string, std::string>>& manifest = core->record_.manifest;
  manifest.insert(manifest.end(), options.manifest.begin(), options.manifest.end());
  core->start_dumps();
  return core;
}

void EndpointCore::start_dumps() {
  if (config_.dump_directory == kDumpsOff) return;
  Result<std::unique_ptr<DumpThread>> dumps =
      DumpThread::start(choose_dump_file(config_, record_.host_name, record_.pid), logger_,
                        [this] { return make_dump("signal"); });
  if (!dumps.is_ok()) return logger_.warning("no dumps are written: " + dumps.status().message());
  dumps_ = std::move(dumps).value();
  driver_->with_engine([this] { engine_->set_on_failure([this] { tell_of_failures(); }); }, true);
}

void EndpointCore::leave(CommunicatorCore& communicator) {
  std::erase(communicators_, &communicator);
}

ProcessDump EndpointCore::dump_held(const std::string& cause) const {
  ProcessDump dump{.cause = cause,
                   .process = record_,
                   .config = config_,
                   .now = engine_->clock().now(),
                   .wall_time = read_wall_time(),
                   .communicators = {},
                   .links = {}};
  for (const CommunicatorCore* communicator : communicators_)
    dump.communicators.push_back(communicator->dump_held());
  engine_->transport().visit_links([&dump](const Link& link) {
    dump.links.push_back({.peer_process = link.peer_process(),
                          .peer_name = link.peer_name(),
                          .bytes_sent = link.bytes_written(),
                          .bytes_received = link.bytes_read(),
                          .is_connected = link.has_wire() && !link.is_failed(),
                          .failure = link.failure()});
  });
  return dump;
}

ProcessDump EndpointCore::make_dump(const std::string& cause) {
  ProcessDump dump;
  driver_->with_engine([&] { dump = dump_held(cause); }, true);
  return dump;
}

Result<std::string> EndpointCore::write_dump(const std::string& path) {
  if (!is_own_process())
    return Status(StatusCode::InvalidArgument,
                  "this process was forked from the one that made the endpoint");
  if (path.empty() && config_.dump_directory == kDumpsOff)
    return Status(StatusCode::InvalidArgument, "MCCL_DUMP_DIR is off; name a path for the dump");
  const DumpFile file =
      path.empty() ? choose_dump_file(config_, record_.host_name, record_.pid) : dump_file_at(path);
  const std::lock_guard lock(dump_mutex_);
  const std::string text = mccl::write_dump(make_dump("call"));
  // A number of its own: the dump's thread may write at the same time.
  MCCL_RETURN_IF_ERROR(write_dump_file(file, text, ~record_.peer.process_id));
  return file.path();
}

// Called by the engine: copies, and leaves text and file to the thread.
void EndpointCore::tell_of_failures() {
  std::vector<std::string> failures;
  for (CommunicatorCore* communicator : communicators_)
    if (communicator->take_failure()) failures.push_back(communicator->describe_failure());
  if (!failures.empty()) dumps_->hand_over(dump_held("failure"), std::move(failures));
}

std::unique_ptr<EndpointCore> EndpointCore::create_passive(
    WireContext& wires, const Clock& clock, const Config& config, uint64_t process_id,
    std::shared_ptr<ProgramProver> prover, Logger::Sink log,
    std::shared_ptr<ProgramLibrary> library) {
  std::unique_ptr<EndpointCore> core(new EndpointCore(config, nullptr, nullptr));
  core->library_ = std::move(library);
  if (log) core->logger_ = Logger(config.log_level, "mccl", std::move(log));
  if (prover != nullptr) core->prover_ = std::move(prover);
  core->record_.host_name = wires.address();
  core->record_.host_id = wires.address();
  core->record_.kernel_id = wires.address();
  core->interface_text_ = wires.address();
  core->start(wires, clock, process_id, ~process_id, false);
  return core;
}

Status EndpointCore::prove_programs(int rank_count) {
  std::vector<std::string> warnings;
  const Status proven = library_->prove(rank_count, &warnings);
  for (const std::string& warning : warnings) logger_.warning(warning);
  return proven;
}

TimeNs EndpointCore::step() {
  std::vector<WireEvent> events;
  do {
    wires_->poll(0, events);
    engine_->add_events(events);
    events.clear();
  } while (engine_->pass(false));
  engine_->pass(true);
  return engine_->expire();
}

bool EndpointCore::is_own_process() const {
  return record_.pid == getpid();
}

bool EndpointCore::take_start_up_line() {
  return std::exchange(has_start_up_line_, false);
}

}  // namespace mccl
