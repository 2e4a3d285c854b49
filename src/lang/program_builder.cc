// The builder behind language.h: records, and hands the recording to lower().
#include "base/check.h"
#include "lang/lower.h"
#include "mccl/language.h"

namespace mccl {

struct ProgramBuilder::State {
  lang::Recording recording;
  StepLines step_lines;
  bool is_lowered = false;
};

ProgramBuilder::ProgramBuilder(std::string name, Collective collective, int rank_count,
                               int chunk_count)
    : state_(std::make_unique<State>()) {
  Program& shape = state_->recording.shape;
  shape.name = std::move(name);
  shape.collective = collective;
  shape.chunk_count = chunk_count;
  shape.ranks.resize(rank_count > 0 ? static_cast<size_t>(rank_count) : 0);
}

ProgramBuilder::ProgramBuilder(std::string name, std::vector<CustomRank> contract)
    : ProgramBuilder(std::move(name), Collective::Custom, static_cast<int>(contract.size()), 1) {
  state_->recording.shape.in_place = false;
  state_->recording.shape.contract = std::move(contract);
}

ProgramBuilder::~ProgramBuilder() = default;
ProgramBuilder::ProgramBuilder(ProgramBuilder&&) noexcept = default;

Chunk ProgramBuilder::input(int rank, int index, int count) const {
  return {rank, Buffer::Input, index, count};
}

Chunk ProgramBuilder::output(int rank, int index, int count) const {
  return {rank, Buffer::Output, index, count};
}

Chunk ProgramBuilder::scratch(int rank, int index, int count) const {
  return {rank, Buffer::Scratch, index, count};
}

Chunk ProgramBuilder::copy(Chunk from, Chunk to, Placement placement, SourceLine line) {
  state_->recording.add(lang::StatementKind::Copy, {from}, {to}, placement, line);
  return to;
}

Chunk ProgramBuilder::reduce(Chunk moving, Chunk staying, Chunk result, Placement placement,
                             SourceLine line) {
  state_->recording.add(lang::StatementKind::Reduce, {moving, staying}, {result}, placement, line);
  return result;
}

void ProgramBuilder::fold(const std::vector<Chunk>& sources, const std::vector<Chunk>& destinations,
                          Placement placement, SourceLine line) {
  state_->recording.add(lang::StatementKind::Fold, sources, destinations, placement, line);
}

void ProgramBuilder::serve(bool in_place, bool out_of_place) {
  state_->recording.shape.in_place = in_place;
  state_->recording.shape.out_of_place = out_of_place;
}

void ProgramBuilder::set_fusion(bool is_on) {
  state_->recording.is_fusion_on = is_on;
}

void ProgramBuilder::set_instances(int count, InstanceLayout layout) {
  MCCL_CHECK(count >= 1);
  state_->recording.instance_count = count;
  state_->recording.layout = layout;
}

void ProgramBuilder::set_early_waits(bool is_on) {
  state_->recording.has_early_waits = is_on;
}

Result<Program> ProgramBuilder::lower() {
  MCCL_CHECK(!state_->is_lowered);
  state_->is_lowered = true;
  return lang::lower(state_->recording, state_->step_lines);
}

const StepLines& ProgramBuilder::step_lines() const {
  return state_->step_lines;
}

}  // namespace mccl
