#include "support/program_mutation.h"

#include <algorithm>
#include <utility>

#include "ir/opcode.h"

namespace mccl {
namespace {

size_t pick(size_t count, Prng& prng) {
  return static_cast<size_t>(prng.below(count));
}

struct Place {
  size_t rank = 0;
  size_t lane = 0;
  size_t step = 0;
};

// Every step is equally likely.
Place pick_step(const Program& program, Prng& prng) {
  std::vector<Place> places;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (size_t lane = 0; lane < program.ranks[rank].lanes.size(); ++lane)
      for (size_t step = 0; step < program.ranks[rank].lanes[lane].steps.size(); ++step)
        places.push_back({rank, lane, step});
  return places[pick(places.size(), prng)];
}

Step& step_at(Program& program, const Place& place) {
  return program.ranks[place.rank].lanes[place.lane].steps[place.step];
}

bool swap_operands(Program& program, Prng& prng) {
  const Place place = pick_step(program, prng);
  Step& step = step_at(program, place);
  switch (prng.below(3)) {
    case 0:
      if (step.sources.size() < 2) return false;
      std::swap(step.sources[pick(step.sources.size(), prng)],
                step.sources[pick(step.sources.size(), prng)]);
      return true;
    case 1:
      if (step.sources.empty() || step.destinations.empty()) return false;
      std::swap(step.sources[pick(step.sources.size(), prng)], step.destinations[0]);
      return true;
    default: {
      Step& other = step_at(program, pick_step(program, prng));
      if (step.sources.size() != other.sources.size() || step.sources.empty()) return false;
      const int rank = step.sources[0].rank;
      if (other.sources[0].rank != rank) return false;
      std::swap(step.sources, other.sources);
      return true;
    }
  }
}

bool weaken_dependence(Program& program, Prng& prng) {
  Step& step = step_at(program, pick_step(program, prng));
  if (step.dependences.empty()) return false;
  const size_t index = pick(step.dependences.size(), prng);
  if (step.dependences[index].step > 0 && prng.below(2) == 0)
    --step.dependences[index].step;
  else
    step.dependences.erase(step.dependences.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

bool shift_offset(Program& program, Prng& prng) {
  Step& step = step_at(program, pick_step(program, prng));
  auto& spans = prng.below(2) == 0 ? step.sources : step.destinations;
  if (spans.empty()) return false;
  Span& span = spans[pick(spans.size(), prng)];
  span.index += prng.below(2) == 0 ? 1 : -1;
  // Beyond the buffer is the least interesting fault: mostly try another place.
  const int size = buffer_chunk_count(program, span.rank, span.buffer);
  return (span.index >= 0 && span.index + span.count <= size) || prng.below(8) == 0;
}

void erase_step(RankProgram& rank, size_t lane, size_t step) {
  auto& steps = rank.lanes[lane].steps;
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(step));
  for (Lane& other : rank.lanes)
    for (Step& dependent : other.steps) {
      std::erase(dependent.dependences, StepRef{static_cast<int>(lane), static_cast<int>(step)});
      for (StepRef& ref : dependent.dependences)
        if (ref.lane == static_cast<int>(lane) && ref.step > static_cast<int>(step)) --ref.step;
    }
}

bool remove_send(RankProgram& rank, size_t lane, size_t step_index) {
  Step& step = rank.lanes[lane].steps[step_index];
  if (step.opcode == Opcode::RecvReduceSend) return false;
  if (step.opcode == Opcode::RecvCopySend)
    step.opcode = Opcode::Recv;
  else if (step.opcode == Opcode::RecvReduceCopySend)
    step.opcode = Opcode::RecvReduceCopy;
  else
    erase_step(rank, lane, step_index);
  return true;
}

void remove_recv(RankProgram& rank, size_t lane, size_t step_index) {
  Step& step = rank.lanes[lane].steps[step_index];
  if (step.opcode == Opcode::Recv) return erase_step(rank, lane, step_index);
  if (step.opcode == Opcode::RecvReduceCopy) {
    step.opcode = Opcode::Copy;
    return;
  }
  if (step.opcode == Opcode::RecvCopySend) step.sources = step.destinations;
  step.destinations.clear();
  step.opcode = Opcode::Send;
}

// The lane at the other end of a lane's send stream; null when there is none.
Lane* receiving_lane(Program& program, size_t rank, const Lane& sender) {
  for (Lane& lane : program.ranks[static_cast<size_t>(sender.send_peer)].lanes)
    if (lane.recv_peer == static_cast<int>(rank) && lane.channel == sender.channel) return &lane;
  return nullptr;
}

bool remove_message(Program& program, Prng& prng) {
  const Place place = pick_step(program, prng);
  RankProgram& rank = program.ranks[place.rank];
  Lane& sender = rank.lanes[place.lane];
  if (!opcode_row(sender.steps[place.step].opcode).sends) return false;
  size_t number = 0;
  for (size_t step = 0; step < place.step; ++step)
    if (opcode_row(sender.steps[step].opcode).sends) ++number;
  Lane* receiver = receiving_lane(program, place.rank, sender);
  if (receiver == nullptr) return false;
  RankProgram& peer = program.ranks[static_cast<size_t>(sender.send_peer)];
  const auto receiver_lane = static_cast<size_t>(receiver - peer.lanes.data());
  if (!remove_send(rank, place.lane, place.step)) return false;
  for (size_t step = 0; step < receiver->steps.size(); ++step) {
    if (!opcode_row(receiver->steps[step].opcode).receives || number-- > 0) continue;
    remove_recv(peer, receiver_lane, step);
    return true;
  }
  return false;
}

bool swap_peers(Program& program, Prng& prng) {
  const Place first = pick_step(program, prng);
  const Place second = pick_step(program, prng);
  Lane& left = program.ranks[first.rank].lanes[first.lane];
  Lane& right = program.ranks[second.rank].lanes[second.lane];
  if (left.send_peer == -1 || right.send_peer == -1) return false;
  Lane* left_receiver = receiving_lane(program, first.rank, left);
  Lane* right_receiver = receiving_lane(program, second.rank, right);
  if (left_receiver == nullptr || right_receiver == nullptr) return false;
  std::swap(left.send_peer, right.send_peer);
  std::swap(left_receiver->recv_peer, right_receiver->recv_peer);
  return left.send_peer != static_cast<int>(first.rank) &&
         right.send_peer != static_cast<int>(second.rank);
}

bool swap_steps(Program& program, Prng& prng) {
  const Place place = pick_step(program, prng);
  auto& steps = program.ranks[place.rank].lanes[place.lane].steps;
  if (place.step + 1 == steps.size()) return false;
  std::swap(steps[place.step], steps[place.step + 1]);
  return true;
}

bool change_opcode(Program& program, Prng& prng) {
  Step& step = step_at(program, pick_step(program, prng));
  switch (step.opcode) {
    case Opcode::Recv:
      step.opcode = Opcode::RecvReduceCopy;
      step.sources = step.destinations;
      return true;
    case Opcode::RecvCopySend:
      step.opcode = Opcode::RecvReduceCopySend;
      step.sources = step.destinations;
      return true;
    case Opcode::RecvReduceSend:
      step.opcode = Opcode::RecvCopySend;
      std::swap(step.sources, step.destinations);
      return true;
    case Opcode::RecvReduceCopy:
      step.opcode = Opcode::Recv;
      step.sources.clear();
      return true;
    case Opcode::RecvReduceCopySend:
      step.opcode = prng.below(2) == 0 ? Opcode::RecvCopySend : Opcode::RecvReduceSend;
      (step.opcode == Opcode::RecvCopySend ? step.sources : step.destinations).clear();
      return true;
    case Opcode::Copy:
      step.opcode = Opcode::Reduce;
      return true;
    case Opcode::Fold:
      step.sources.erase(step.sources.begin() +
                         static_cast<std::ptrdiff_t>(pick(step.sources.size(), prng)));
      return !step.sources.empty();
    case Opcode::Send:
    case Opcode::Reduce:
      return false;
  }
  return false;
}

}  // namespace

const char* mutation_name(MutationKind kind) {
  switch (kind) {
    case MutationKind::SwapOperands:
      return "swap operands";
    case MutationKind::WeakenDependence:
      return "weaken dependence";
    case MutationKind::ShiftOffset:
      return "shift offset";
    case MutationKind::RemoveMessage:
      return "remove message";
    case MutationKind::SwapPeers:
      return "swap peers";
    case MutationKind::SwapSteps:
      return "swap steps";
    case MutationKind::ChangeOpcode:
      return "change opcode";
  }
  return "unknown";
}

bool mutate(Program& program, MutationKind kind, Prng& prng) {
  switch (kind) {
    case MutationKind::SwapOperands:
      return swap_operands(program, prng);
    case MutationKind::WeakenDependence:
      return weaken_dependence(program, prng);
    case MutationKind::ShiftOffset:
      return shift_offset(program, prng);
    case MutationKind::RemoveMessage:
      return remove_message(program, prng);
    case MutationKind::SwapPeers:
      return swap_peers(program, prng);
    case MutationKind::SwapSteps:
      return swap_steps(program, prng);
    case MutationKind::ChangeOpcode:
      return change_opcode(program, prng);
  }
  return false;
}

}  // namespace mccl
