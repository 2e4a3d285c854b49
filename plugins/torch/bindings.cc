// The Python face of the back end, and what the rest of the plug-in needs of the interpreter. The
// only file that includes Python.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "base/dtype.h"
#include "tensor_device.h"
#ifdef __APPLE__
#include "metal_device.h"
#endif

namespace py = pybind11;

namespace mccl {
namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Signals are handled on the main thread only; elsewhere PyErr_CheckSignals does nothing. The
// binding that waits gives the handler's own exception back to Python.
std::exception_ptr take_interrupt() {
  if (is_finalizing()) return nullptr;
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) return nullptr;
  return std::make_exception_ptr(py::error_already_set());
}

void without_lock(const std::function<void()>& action) {
  if (!is_finalizing() && PyGILState_Check() != 0) {
    const py::gil_scoped_release release;
    action();
  } else {
    action();
  }
}

void begin_fork() {
  const py::gil_scoped_release release;
  Backend::begin_fork();
}

void end_fork_in_parent() {
  const py::gil_scoped_release release;
  Backend::end_fork(ForkSide::Parent);
}

// Nobody else is there to wait for.
void end_fork_in_child() {
  Backend::end_fork(ForkSide::Child);
}

// Of another module, which was compiled against the same headers: the capsule holds a pointer to a
// std::shared_ptr<TensorDevice>.
void register_device(const std::string& type, const py::capsule& capsule) {
  constexpr const char* kName = "mccl.TensorDevice";
  TORCH_CHECK_VALUE(capsule.name() != nullptr && std::string(capsule.name()) == kName,
                    "mccl: the capsule of a device is to be called \"", kName, "\", not \"",
                    capsule.name() == nullptr ? "" : capsule.name(), "\"");
  register_tensor_device(c10::Device(type).type(),
                         *capsule.get_pointer<std::shared_ptr<TensorDevice>>());
}

py::dict to_dict(const CommunicatorStats& stats, const StagingStats& staging,
                 const HandOffStats& hand_off) {
  py::list programs;
  for (const ProgramCount& count : stats.programs) {
    py::dict program;
    program["collective"] = std::string(collective_name(count.collective));
    program["program"] = count.program;
    program["calls"] = count.calls;
    program["bytes"] = count.bytes;
    program["reason"] = count.reason;
    program["ragged_calls"] = count.ragged_calls;
    program["copied_calls"] = count.copied_calls;
    program["copied_bytes"] = count.copied_bytes;
    program["averaged_calls"] = count.averaged_calls;
    programs.append(program);
  }
  py::list loaded;
  for (const LoadedCount& count : stats.loaded) {
    py::dict program;
    program["program"] = count.program;
    program["collective"] = std::string(collective_name(count.collective));
    program["file"] = count.file;
    program["rank_count"] = count.rank_count;
    program["calls"] = count.calls;
    loaded.append(program);
  }
  py::list refusals;
  for (const RefusalCount& count : stats.refusals) {
    py::dict refusal;
    refusal["program"] = count.program;
    refusal["collective"] = std::string(collective_name(count.collective));
    refusal["rule"] = count.rule;
    refusal["reason"] = count.reason;
    refusal["remedy"] = count.remedy;
    refusal["calls"] = count.calls;
    refusals.append(refusal);
  }
  py::dict result;
  result["rank"] = stats.rank;
  result["rank_count"] = stats.rank_count;
  result["host_count"] = stats.host_count;
  result["programs"] = programs;
  result["loaded"] = loaded;
  result["refusals"] = refusals;
  result["operations_posted"] = stats.operations_posted;
  result["operations_completed"] = stats.operations_completed;
  result["bytes_sent"] = stats.bytes_sent;
  result["bytes_received"] = stats.bytes_received;
  result["write_calls"] = stats.write_calls;
  result["read_calls"] = stats.read_calls;
  result["parked_bytes"] = stats.parked_bytes;
  result["refused_connections"] = stats.refused_connections;
  result["staged_calls"] = staging.calls;
  result["staged_bytes"] = staging.bytes;
  result["device_calls"] = hand_off.calls;
  result["stream_waits"] = hand_off.stream_waits;
  result["host_waits"] = hand_off.host_waits;
  return result;
}

c10::intrusive_ptr<Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, c10::intrusive_ptr<Backend::Options> options,
                                         const std::string& master_address) {
  const py::gil_scoped_release release;
  return c10::make_intrusive<Backend>(store, rank, size, std::move(options), master_address,
                                      InterpreterHooks{&take_interrupt, &without_lock});
}

DataType parse_dtype(const std::string& name) {
  const std::optional<DataType> found = find_dtype(name);
  TORCH_CHECK_VALUE(found.has_value(), "mccl: no type is called \"", name,
                    "\"; float32, bfloat16 and int64 are some");
  return *found;
}

ReduceOp parse_op(const std::string& name) {
  const std::optional<ReduceOp> found = find_reduce_op(name);
  TORCH_CHECK_VALUE(found.has_value(), "mccl: no reduction is called \"", name,
                    "\"; sum, avg, min and max are some");
  return *found;
}

std::string explain(Backend& backend, const std::string& collective, int64_t bytes,
                    const std::optional<std::string>& dtype, const std::string& op,
                    bool is_in_place) {
  const std::optional<Collective> found = find_collective(collective);
  if (!found.has_value()) {
    std::string known;
    for (const Collective one : all_collectives())
      known += (known.empty() ? "" : ", ") + std::string(collective_name(one));
    TORCH_CHECK_VALUE(false, "mccl: no collective is called \"", collective, "\"; there are ",
                      known);
  }
  std::optional<Communicator::CallWords> words;
  if (dtype) words = {parse_dtype(*dtype), parse_op(op), is_in_place};
  const py::gil_scoped_release release;
  return backend.explain(*found, bytes, words);
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  py::module_::import("torch.distributed");  // registers c10d's classes
#ifdef __APPLE__
  register_tensor_device(c10::DeviceType::MPS, make_metal_device());
#endif
  py::module_::import("os").attr("register_at_fork")(
      py::arg("before") = py::cpp_function(&begin_fork),
      py::arg("after_in_parent") = py::cpp_function(&end_fork_in_parent),
      py::arg("after_in_child") = py::cpp_function(&end_fork_in_child));
  module.def("_register_tensor_device", &register_device, py::arg("type"), py::arg("capsule"),
             "Makes tensors of a device known that this package does not know; see "
             "plugins/torch/tensor_device.h.");
  py::class_<Backend::Options, c10::intrusive_ptr<Backend::Options>, c10d::Backend::Options>(
      module, "Options", "Options of a process group of back end mccl.")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__",
           [](const Backend::Options& self) { return c10::make_intrusive<Backend::Options>(self); })
      .def("__deepcopy__", [](const Backend::Options& self, const py::dict&) {
        return c10::make_intrusive<Backend::Options>(self);
      });
  py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(module, "Backend")
      .def(py::init(&make_backend), py::arg("store"), py::arg("rank"), py::arg("size"),
           py::arg("options"), py::arg("master_address") = "")
      .def("stats",
           [](Backend& self) {
             CommunicatorStats stats;
             {
               const py::gil_scoped_release release;
               stats = self.stats();
             }
             return to_dict(stats, self.staging_stats(), self.hand_off_stats());
           })
      .def("explain", &explain, py::arg("collective"), py::arg("bytes"),
           py::arg("dtype") = py::none(), py::arg("op") = "sum", py::arg("in_place") = false)
      .def(
          "custom",
          [](Backend& self, const std::string& program, const at::Tensor& input, at::Tensor output,
             const std::string& op, bool is_async, std::optional<int64_t> chunk_elements) {
            const ReduceOp reduction = parse_op(op);
            const py::gil_scoped_release release;
            return self.custom(program, input, output, reduction, is_async, chunk_elements);
          },
          py::arg("program"), py::arg("input"), py::arg("output"), py::arg("op") = "sum",
          py::arg("async_op") = false, py::arg("chunk_elements") = py::none())
      .def("_abort", py::overload_cast<const std::string&>(&Backend::abort),
           py::call_guard<py::gil_scoped_release>(), py::arg("reason"),
           "Fails the group on all ranks, with a reason that they report. Does not block.")
      .def("write_dump", &Backend::write_dump, py::arg("path"),
           py::call_guard<py::gil_scoped_release>());
}

}  // namespace mccl
