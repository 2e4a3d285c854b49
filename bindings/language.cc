// mccl._language: the builder, the verifier and the texts, one to one. Errors of the author become
// ValueError with the text of the Status. A statement's line is that of the Python frame that
// calls.
#include "mccl/language.h"

#include <Python.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/dtype.h"
#include "ir/opcode.h"
#include "ir/xml.h"
#include "verify/verify.h"

namespace py = pybind11;

namespace mccl {
namespace {

using Line = std::pair<std::string, int>;  // file, line

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.is_ok()) throw py::value_error(result.status().message());
  return std::move(result).value();
}

Collective collective_of(const std::string& name) {
  std::string known;
  for (const Collective collective : all_collectives()) {
    if (collective_name(collective) == name) return collective;
    known += (known.empty() ? "" : ", ") + std::string(collective_name(collective));
  }
  throw py::value_error("there is no collective \"" + name + "\"; there are " + known);
}

XmlDialect dialect_of(const std::string& name) {
  if (name == "mccl") return XmlDialect::Mccl;
  if (name == "msccl") return XmlDialect::Msccl;
  throw py::value_error("there is no dialect \"" + name + "\"; there are mccl and msccl");
}

ProgramProtocol protocol_of(const std::string& name) {
  if (name == "Simple") return ProgramProtocol::Simple;
  if (name == "LL") return ProgramProtocol::LowLatency;
  if (name == "LL128") return ProgramProtocol::LowLatency128;
  throw py::value_error("there is no protocol \"" + name + "\"; there are Simple, LL and LL128");
}

Line line_of_caller() {
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return {"", 0};
  const auto code =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return {py::str(code.attr("co_filename")), PyFrame_GetLineNumber(frame)};
}

using Outputs = std::vector<std::vector<std::pair<int, int>>>;  // (rank, index) by output chunk

// Of each rank: the number of its input chunks, and what its output chunks must hold.
std::vector<CustomRank> contract_of(const std::vector<std::pair<int, Outputs>>& ranks) {
  std::vector<CustomRank> contract;
  for (const auto& [input_chunk_count, outputs] : ranks) {
    CustomRank& promise = contract.emplace_back();
    promise.input_chunk_count = input_chunk_count;
    for (const auto& output : outputs) {
      std::vector<Contribution>& wanted = promise.outputs.emplace_back();
      for (const auto& [rank, index] : output) wanted.push_back({rank, index});
      std::sort(wanted.begin(), wanted.end());
      if (std::adjacent_find(wanted.begin(), wanted.end()) != wanted.end())
        throw py::value_error("a contract wants a contribution to an output chunk twice");
    }
  }
  return contract;
}

// Owns the names of files that the builder's lines point to.
class PythonBuilder {
 public:
  PythonBuilder(std::string name, const std::string& collective, int rank_count, int chunk_count)
      : builder_(std::move(name), collective_of(collective), rank_count, chunk_count) {}
  PythonBuilder(std::string name, const std::vector<std::pair<int, Outputs>>& contract)
      : builder_(std::move(name), contract_of(contract)) {}

  Chunk copy(Chunk from, Chunk to, int channel, int send_lane, int recv_lane,
             std::optional<Line> line) {
    return builder_.copy(from, to, {channel, send_lane, recv_lane}, keep(std::move(line)));
  }
  Chunk reduce(Chunk moving, Chunk staying, Chunk result, int channel, int send_lane, int recv_lane,
               std::optional<Line> line) {
    return builder_.reduce(moving, staying, result, {channel, send_lane, recv_lane},
                           keep(std::move(line)));
  }
  void fold(const std::vector<Chunk>& sources, const std::vector<Chunk>& destinations, int lane,
            std::optional<Line> line) {
    builder_.fold(sources, destinations, {-1, lane, -1}, keep(std::move(line)));
  }
  void set_instances(int count, const std::string& layout) {
    if (count < 1) throw py::value_error(std::to_string(count) + " instances of a program");
    if (layout != "interleaved" && layout != "blocks")
      throw py::value_error("there is no layout \"" + layout +
                            "\"; there are interleaved and blocks");
    builder_.set_instances(
        count, layout == "blocks" ? InstanceLayout::Blocks : InstanceLayout::Interleaved);
  }
  Program lower() {
    if (is_lowered_) throw py::value_error("a program is lowered once; make another builder");
    is_lowered_ = true;
    const py::gil_scoped_release release;
    Result<Program> program = builder_.lower();
    const py::gil_scoped_acquire acquire;
    return value_or_raise(std::move(program));
  }
  Line line_of_step(int rank, int lane, int step) const {
    const StepLines& lines = builder_.step_lines();
    const SourceLine& line = lines.at(static_cast<size_t>(rank))
                                 .at(static_cast<size_t>(lane))
                                 .at(static_cast<size_t>(step));
    return {line.file, line.line};
  }
  ProgramBuilder& builder() { return builder_; }

 private:
  SourceLine keep(std::optional<Line> line) {
    if (!line) line = line_of_caller();
    return {files_.insert(std::move(line->first)).first->c_str(), line->second};
  }

  ProgramBuilder builder_;
  std::set<std::string> files_;  // whose texts never move
  bool is_lowered_ = false;
};

std::string write_text(const Program& program, const std::string& dialect,
                       const std::string& protocol, int64_t begin_bytes,
                       std::optional<int64_t> end_bytes) {
  ProgramUse use;
  use.protocol = protocol_of(protocol);
  use.begin_bytes = begin_bytes;
  use.end_bytes = end_bytes.value_or(ProgramUse::kEndless);
  return value_or_raise(write_xml(program, dialect_of(dialect), use));
}

Program read_text(const std::string& text, const std::string& file_name) {
  XmlReadResult result = read_xml(text);
  if (!result.is_ok()) throw py::value_error(result.to_string(file_name));
  return std::move(result.program);
}

void bind_values(py::module_& module) {
  py::enum_<Buffer>(module, "Buffer")
      .value("INPUT", Buffer::Input)
      .value("OUTPUT", Buffer::Output)
      .value("SCRATCH", Buffer::Scratch);
  py::class_<Chunk>(module, "Chunk", "A place: `count` neighbouring chunks of a buffer of a rank.")
      .def(py::init<int, Buffer, int, int>(), py::arg("rank"), py::arg("buffer"), py::arg("index"),
           py::arg("count") = 1)
      .def_readwrite("rank", &Chunk::rank)
      .def_readwrite("buffer", &Chunk::buffer)
      .def_readwrite("index", &Chunk::index)
      .def_readwrite("count", &Chunk::count)
      .def("__eq__", [](const Chunk& one, const Chunk& other) { return one == other; })
      .def("__repr__", [](const Chunk& chunk) {
        return to_string(Span{chunk.rank, chunk.buffer, chunk.index, chunk.count}) + " of rank " +
               std::to_string(chunk.rank);
      });
  py::class_<Span>(module, "Span", "What a step reads or writes.")
      .def_readonly("rank", &Span::rank)
      .def_readonly("buffer", &Span::buffer)
      .def_readonly("index", &Span::index)
      .def_readonly("count", &Span::count)
      .def("__repr__", [](const Span& span) { return to_string(span); });
  py::class_<Step>(module, "Step", "One instruction.")
      .def_property_readonly(
          "op", [](const Step& step) { return std::string(opcode_row(step.opcode).spelling); })
      .def_readonly("sources", &Step::sources)
      .def_readonly("destinations", &Step::destinations)
      .def_property_readonly("dependences", [](const Step& step) {
        std::vector<std::pair<int, int>> refs;
        for (const StepRef& ref : step.dependences) refs.emplace_back(ref.lane, ref.step);
        return refs;
      });
  py::class_<Lane>(module, "Lane", "A sequential instruction stream of one rank.")
      .def_readonly("send_peer", &Lane::send_peer)
      .def_readonly("recv_peer", &Lane::recv_peer)
      .def_readonly("channel", &Lane::channel)
      .def_readonly("steps", &Lane::steps);
  py::class_<RankProgram>(module, "RankProgram", "The lanes of one rank.")
      .def_readonly("scratch_chunk_count", &RankProgram::scratch_chunk_count)
      .def_readonly("lanes", &RankProgram::lanes);
  py::class_<Program>(module, "Program", "A lowered program.")
      .def_readonly("name", &Program::name)
      .def_property_readonly(
          "collective",
          [](const Program& program) { return std::string(collective_name(program.collective)); })
      .def_readonly("chunk_count", &Program::chunk_count)
      .def_readonly("in_place", &Program::in_place)
      .def_readonly("out_of_place", &Program::out_of_place)
      .def_readonly("ranks", &Program::ranks)
      .def("__eq__", [](const Program& one, const Program& other) { return one == other; });
}

void bind_builder(py::module_& module) {
  const auto place = [](Buffer buffer) {
    return [buffer](const PythonBuilder&, int rank, int index, int count) {
      return Chunk{rank, buffer, index, count};
    };
  };
  py::class_<PythonBuilder>(module, "ProgramBuilder",
                            "Records statements; lower() makes a program of them.")
      .def(py::init<std::string, const std::string&, int, int>(), py::arg("name"),
           py::arg("collective"), py::arg("rank_count"), py::arg("chunk_count"))
      .def(py::init<std::string, const std::vector<std::pair<int, Outputs>>&>(), py::arg("name"),
           py::arg("contract"),
           "Of a custom collective: per rank (input chunks, [[(rank, index), ...] per output]).")
      .def("input", place(Buffer::Input), py::arg("rank"), py::arg("index"), py::arg("count") = 1)
      .def("output", place(Buffer::Output), py::arg("rank"), py::arg("index"), py::arg("count") = 1)
      .def("scratch", place(Buffer::Scratch), py::arg("rank"), py::arg("index"),
           py::arg("count") = 1)
      .def("copy", &PythonBuilder::copy, py::arg("source"), py::arg("to"), py::kw_only(),
           py::arg("channel") = -1, py::arg("send_lane") = -1, py::arg("recv_lane") = -1,
           py::arg("line") = py::none(), "to = source; returns `to`. Between ranks: one message.")
      .def("reduce", &PythonBuilder::reduce, py::arg("moving"), py::arg("staying"),
           py::arg("result"), py::kw_only(), py::arg("channel") = -1, py::arg("send_lane") = -1,
           py::arg("recv_lane") = -1, py::arg("line") = py::none(),
           "result = op(moving, staying) on the rank of `staying`; returns `result`.")
      .def("fold", &PythonBuilder::fold, py::arg("sources"), py::arg("destinations"), py::kw_only(),
           py::arg("lane") = -1, py::arg("line") = py::none(),
           "Every destination = left fold of the sources in their order; all on one rank.")
      .def(
          "serve",
          [](PythonBuilder& self, bool in_place, bool out_of_place) {
            self.builder().serve(in_place, out_of_place);
          },
          py::arg("in_place"), py::arg("out_of_place"),
          "Which calls the program claims to be right for; both unless said.")
      .def(
          "set_fusion", [](PythonBuilder& self, bool is_on) { self.builder().set_fusion(is_on); },
          py::arg("is_on"), "False keeps every receive, reduce and send apart.")
      .def(
          "set_shared_lanes",
          [](PythonBuilder& self, bool is_on) { self.builder().set_shared_lanes(is_on); },
          py::arg("is_on"), "True puts independent local work into the lanes of messages.")
      .def(
          "set_early_waits",
          [](PythonBuilder& self, bool is_on) { self.builder().set_early_waits(is_on); },
          py::arg("is_on"), "True puts the waits of a lane's local reduces on its first one.")
      .def("set_instances", &PythonBuilder::set_instances, py::arg("count"),
           py::arg("layout") = "interleaved",
           "The program `count` times side by side; the layout is \"interleaved\" or \"blocks\".")
      .def("lower", &PythonBuilder::lower,
           "The program. ValueError with every fault, one per line, \"file:line: text\". Once.")
      .def("line_of_step", &PythonBuilder::line_of_step, py::arg("rank"), py::arg("lane"),
           py::arg("step"), "(file, line) of the statement that a step of the program comes from.");
}

void bind_verifier(py::module_& module) {
  py::class_<Finding>(module, "Finding", "What the verifier holds against a program.")
      .def_property_readonly("rule", [](const Finding& finding) { return rule_name(finding.rule); })
      .def_readonly("in_place", &Finding::in_place)
      .def_readonly("text", &Finding::text)
      .def_readonly("trace", &Finding::trace);
  py::class_<Verdict>(module, "Verdict", "Findings; none: proven.")
      .def_property_readonly("is_proven", &Verdict::is_proven)
      .def_readonly("findings", &Verdict::findings)
      .def("__str__", &Verdict::to_string);
  module.def(
      "verify", [](const Program& program) { return verify(program); }, py::arg("program"),
      py::call_guard<py::gil_scoped_release>(), "Judges a program: a Verdict.");
}

}  // namespace

PYBIND11_MODULE(_language, module) {
  module.doc() = "The chunk language, the verifier and the texts of programs.";
  bind_values(module);
  bind_builder(module);
  bind_verifier(module);
  module.def("write_xml", &write_text, py::arg("program"), py::arg("dialect") = "mccl",
             py::kw_only(), py::arg("protocol") = "Simple", py::arg("begin_bytes") = 0,
             py::arg("end_bytes") = py::none(),
             "The canonical text, in the dialect \"mccl\" or \"msccl\".");
  module.def("read_xml", &read_text, py::arg("text"), py::arg("file_name") = "program",
             "The program of a text in either dialect; ValueError with all faults.");
}

}  // namespace mccl
