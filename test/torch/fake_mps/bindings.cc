// The Python module _fake_mps. fake_mps.py is its face.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string>

#include "fake_device.h"
#include "fallback.h"
#include "kernels.h"
#include "private_device.h"
#include "torch_device.h"
#include "watched_device.h"

namespace py = pybind11;

namespace mccl::fake_mps {
namespace {

const std::shared_ptr<WatchedDevice>& watched_device() {
  static const auto device = std::make_shared<WatchedDevice>(fake_device());
  return device;
}

template <typename T>
T find_choice(const std::map<std::string, T>& choices, const std::string& name) {
  const auto found = choices.find(name);
  if (found != choices.end()) return found->second;
  std::string known;
  for (const auto& [choice, value] : choices) known += (known.empty() ? "" : ", ") + choice;
  TORCH_CHECK_VALUE(false, "fake mps: there is no \"", name, "\"; there are ", known);
}

sim::HandOffFault parse_fault(const std::string& name) {
  using enum sim::HandOffFault;
  return find_choice<sim::HandOffFault>({{"none", None},
                                         {"early_producer", EarlyProducer},
                                         {"no_consumer_wait", NoConsumerWait},
                                         {"no_commit", NoCommit},
                                         {"engine_encodes", EngineEncodes},
                                         {"no_raise", NoRaise}},
                                        name);
}

Temporary parse_temporary(const std::string& name) {
  return find_choice<Temporary>(
      {{"none", Temporary::None}, {"released", Temporary::Released}, {"held", Temporary::Held}},
      name);
}

TimeNs to_ns(double us) {
  return static_cast<TimeNs>(us * kNsPerUs);
}

void start(double delay_us, double jitter, int autocommit, uint64_t seed) {
  TORCH_CHECK(!is_fake_device_started(), "fake mps: the device of this process has started");
  start_fake_device({.sim = {.seed = seed, .delay_jitter = jitter},
                     .kernel_ns = to_ns(delay_us),
                     .autocommit_kernels = autocommit});
  register_device();
  register_kernels();
}

// For `_C._register_tensor_device`, which copies the pointer.
py::capsule tensor_device(bool is_private) {
  auto* device = new std::shared_ptr<TensorDevice>(watched_device());
  if (is_private) *device = std::make_shared<PrivateDevice>(fake_device());
  return py::capsule(device, "mccl.TensorDevice", [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<TensorDevice>*>(
        PyCapsule_GetPointer(capsule, "mccl.TensorDevice"));
  });
}

py::dict counts() {
  const sim::DeviceCounts counts = fake_device().sim().counts();
  py::dict result;
  result["kernels"] = counts.kernels;
  result["commits"] = counts.commits;
  result["drains"] = counts.drains;
  result["reused_blocks"] = counts.reused_blocks;
  result["tickets"] = counts.tickets;
  result["device_waits"] = counts.device_waits;
  return result;
}

py::list take_hand_overs() {
  py::list rows;
  for (const HandOver& row : watched_device()->take_hand_overs())
    rows.append(py::make_tuple(row.call, row.ticket, row.begin_ns, row.end_ns));
  return rows;
}

}  // namespace

PYBIND11_MODULE(_fake_mps, module) {
  module.def("start", &start, py::arg("delay_us"), py::arg("jitter"), py::arg("autocommit"),
             py::arg("seed"));
  module.def("tensor_device", &tensor_device, py::arg("is_private"));
  module.def(
      "synchronize", [] { fake_device().synchronize(); }, py::call_guard<py::gil_scoped_release>());
  module.def("set_delay_us", [](double us, std::string only) {
    fake_device().set_kernel_ns(to_ns(us), std::move(only));
  });
  module.def("set_fault",
             [](const std::string& name) { fake_device().sim().set_fault(parse_fault(name)); });
  module.def("set_temporary", [](const std::string& name) {
    watched_device()->set_temporary(parse_temporary(name));
  });
  module.def("without_ownership", &without_ownership);
  module.def("counts", &counts);
  module.def("synchronous_operators", &synchronous_operators);
  module.def("violations", [] {
    std::vector<std::string> found = fake_device().violations();
    for (std::string& text : hand_off_violations()) found.push_back(std::move(text));
    return found;
  });
  module.def("take_hand_overs", &take_hand_overs);
  module.def("now_ns", [] { return fake_device().now(); });
}

}  // namespace mccl::fake_mps
