#include "support/program_files.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/config.h"

namespace mccl {

ProgramFolder::ProgramFolder() {
  path_ = temporary_directory() + "/mccl-programs-XXXXXX";
  MCCL_CHECK(mkdtemp(path_.data()) != nullptr);
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ProgramFolder::write(const std::string& file, const Program& program,
                                 const ProgramUse& use, XmlDialect dialect) const {
  const Result<std::string> text = write_xml(program, dialect, use);
  if (!text.is_ok()) fail_check(__FILE__, __LINE__, "write_xml", text.status().to_string());
  return write_text(file, text.value());
}

std::string ProgramFolder::write_text(const std::string& file, const std::string& text) const {
  const std::string path = path_ + "/" + file;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

Program make_one_step_all_reduce(int rank_count) {
  Program program;
  program.name = "one_step";
  program.in_place = false;
  for (int rank = 0; rank < rank_count; ++rank) {
    RankProgram& own = program.ranks.emplace_back();
    own.scratch_chunk_count = rank_count - 1;
    Lane adder{.send_peer = -1, .recv_peer = -1, .channel = 0, .steps = {}};
    adder.steps.push_back({.opcode = Opcode::Copy,
                           .sources = {{rank, Buffer::Input, 0, 1}},
                           .destinations = {{rank, Buffer::Output, 0, 1}},
                           .dependences = {}});
    for (int hop = 1; hop < rank_count; ++hop) {
      const int peer = (rank + hop) % rank_count;
      const Span slot{rank, Buffer::Scratch, hop - 1, 1};
      own.lanes.push_back({.send_peer = peer,
                           .recv_peer = -1,
                           .channel = 0,
                           .steps = {{.opcode = Opcode::Send,
                                      .sources = {{rank, Buffer::Input, 0, 1}},
                                      .destinations = {},
                                      .dependences = {}}}});
      own.lanes.push_back({.send_peer = -1,
                           .recv_peer = peer,
                           .channel = 0,
                           .steps = {{.opcode = Opcode::Recv,
                                      .sources = {},
                                      .destinations = {slot},
                                      .dependences = {}}}});
      adder.steps.push_back({.opcode = Opcode::Reduce,
                             .sources = {slot},
                             .destinations = {{rank, Buffer::Output, 0, 1}},
                             .dependences = {{static_cast<int>(own.lanes.size()) - 1, 0}}});
    }
    own.lanes.push_back(std::move(adder));
  }
  return program;
}

}  // namespace mccl
