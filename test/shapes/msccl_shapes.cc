#include "shapes/msccl_shapes.h"

#include <functional>

#include "base/check.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Program lower(ProgramBuilder* builder) {
  Result<Program> program = builder->lower();
  const std::string error = program.status().to_string();
  MCCL_CHECK_EQ(error, "ok");
  return std::move(program).value();
}

template <typename Change>
void for_each_span(Program* program, const Change& change) {
  for (RankProgram& rank : program->ranks)
    for (Lane& lane : rank.lanes)
      for (Step& step : lane.steps)
        for (std::vector<Span>* spans : {&step.sources, &step.destinations})
          for (Span& span : *spans) change(&span);
}

// In-place files name one buffer only: an all-reduce its input, an all-gather its output.
Program in_place_only(Program program) {
  const bool is_reduction = program.collective == Collective::AllReduce;
  for_each_span(&program, [&](Span* span) {
    if (is_reduction && span->buffer == Buffer::Output) span->buffer = Buffer::Input;
    if (is_reduction || span->buffer != Buffer::Input) return;
    span->index = input_alias(program, span->rank, span->index);
    span->buffer = Buffer::Output;
  });
  program.out_of_place = false;
  return program;
}

Program out_of_place_only(Program program) {
  program.in_place = false;
  return program;
}

// A lane of `instance`; keys are per rank, and no shape has more than this many.
constexpr int kLanesOfInstance = 64;
Placement place(int channel, int instance, int send_lane, int recv_lane) {
  const int first = instance * kLanesOfInstance;
  return {channel, first + send_lane, first + recv_lane};
}

// Block d of every rank's input goes to rank d, which reduces and sends the result to all; lane x
// exchanges with rank x, and reduces the x-th chunk of the block. In place everything is done in
// the input.
Program all_pairs(int ranks, int instances, bool is_out_of_place) {
  const int chunks = ranks * ranks;
  ProgramBuilder builder("allreduce_pairs", Collective::AllReduce, ranks, chunks * instances);
  builder.serve(!is_out_of_place, is_out_of_place);
  const auto result = [&](int rank, int index, int count) {
    return is_out_of_place ? builder.output(rank, index, count) : builder.input(rank, index, count);
  };
  for (int instance = 0; instance < instances; ++instance) {
    const int base = chunks * instance;
    const auto slot = [&](int rank, int from) {
      return (instance * (ranks - 1) + (from < rank ? from : from - 1)) * ranks;
    };
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to)
        if (from != to)
          builder.copy(builder.input(from, base + to * ranks, ranks),
                       builder.scratch(to, slot(to, from), ranks),
                       place(instance, instance, to, from));
    for (int rank = 0; rank < ranks; ++rank) {
      const int own = base + rank * ranks;
      if (is_out_of_place)
        builder.copy(builder.input(rank, own, ranks), builder.output(rank, own, ranks),
                     place(-1, instance, rank, rank));
      for (int chunk = 0; chunk < ranks; ++chunk)
        for (int from = 0; from < ranks; ++from)
          if (from != rank)
            builder.reduce(builder.scratch(rank, slot(rank, from) + chunk),
                           result(rank, own + chunk, 1), result(rank, own + chunk, 1),
                           place(-1, instance, chunk, chunk));
    }
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to)
        if (from != to)
          builder.copy(result(from, base + from * ranks, ranks),
                       result(to, base + from * ranks, ranks), place(instance, instance, to, from));
  }
  return lower(&builder);
}

// Chunk c starts on rank c and goes round twice, on channel c modulo `channels` of its instance.
Program ring(int ranks, int channels, int instances) {
  ProgramBuilder builder("allreduce_ring", Collective::AllReduce, ranks, ranks * instances);
  for (int instance = 0; instance < instances; ++instance) {
    for (int chunk = 0; chunk < ranks; ++chunk) {
      const int index = chunk * instances + instance;
      const int lane = chunk % channels;
      const Placement placement = place(instance * channels + lane, instance, lane, lane);
      Chunk value = builder.input(chunk, index);
      for (int hop = 1; hop < ranks; ++hop) {
        const int rank = (chunk + hop) % ranks;
        value = builder.reduce(value, builder.input(rank, index), builder.output(rank, index),
                               placement);
      }
      for (int hop = 0; hop < ranks - 1; ++hop)
        value = builder.copy(value, builder.output((chunk + hop) % ranks, index), placement);
    }
  }
  return lower(&builder);
}

// Both in place: the own block of the output is there already.
Program all_gather_ring(int ranks, int instances) {
  ProgramBuilder builder("all_gather_llm", Collective::AllGather, ranks, instances);
  builder.serve(true, false);
  for (int instance = 0; instance < instances; ++instance)
    for (int from = 0; from < ranks; ++from) {
      Chunk value = builder.input(from, instance);
      for (int hop = 1; hop < ranks; ++hop)
        value =
            builder.copy(value, builder.output((from + hop) % ranks, from * instances + instance),
                         place(instance, instance, 0, 0));
    }
  return in_place_only(lower(&builder));
}

// `channels` of each instance: 1, or one for each distance.
Program all_gather_direct(int ranks, int channels, int instances) {
  ProgramBuilder builder("all_gather_llm", Collective::AllGather, ranks, instances);
  builder.serve(true, false);
  for (int instance = 0; instance < instances; ++instance)
    for (int from = 0; from < ranks; ++from)
      for (int distance = 1; distance < ranks; ++distance) {
        const int channel = instance * channels + (channels == 1 ? 0 : distance);
        builder.copy(builder.input(from, instance),
                     builder.output((from + distance) % ranks, from * instances + instance),
                     place(channel, instance, distance, ranks + distance));
      }
  return in_place_only(lower(&builder));
}

enum class Lanes { Apart, ApartWithCopy, Shared };

// Lanes that send and lanes that receive, or one for both; a copy of the own block in a lane of its
// own or in the first that sends.
Program all_to_all(int ranks, int channels, int instances, Lanes lanes) {
  ProgramBuilder builder("alltoall_llm", Collective::AllToAll, ranks, instances);
  builder.serve(false, true);
  for (int instance = 0; instance < instances; ++instance)
    for (int from = 0; from < ranks; ++from) {
      const int copy_lane = lanes == Lanes::ApartWithCopy ? (from + 1) % ranks : 2 * ranks;
      builder.copy(builder.input(from, from * instances + instance),
                   builder.output(from, from * instances + instance),
                   place(-1, instance, copy_lane, copy_lane));
      for (int distance = 1; distance < ranks; ++distance) {
        const int to = (from + distance) % ranks;
        const int channel = instance * channels + (channels == 1 ? 0 : distance);
        builder.copy(builder.input(from, to * instances + instance),
                     builder.output(to, from * instances + instance),
                     place(channel, instance, to, (lanes == Lanes::Shared ? 0 : ranks) + from));
      }
    }
  return lower(&builder);
}

// Two pairs: to the other pair, and from there to its neighbour.
Program all_gather_hierarchical(int instances) {
  ProgramBuilder builder("allgather_hierarchical", Collective::AllGather, 4, instances);
  for (int instance = 0; instance < instances; ++instance)
    for (int from = 0; from < 4; ++from) {
      const int chunk = from * instances + instance;
      const Chunk input = builder.input(from, instance);
      builder.copy(input, builder.output(from, chunk), place(-1, instance, 2, 2));
      builder.copy(input, builder.output(from ^ 1, chunk), place(instance, instance, 0, 1));
      const Chunk value =
          builder.copy(input, builder.output(from ^ 2, chunk), place(instance, instance, 2, 0));
      builder.copy(value, builder.output(from ^ 3, chunk), place(instance, instance, 0, 1));
    }
  return out_of_place_only(lower(&builder));
}

// Reduce in the pair, across, and share in the pair.
Program all_reduce_hierarchical(int instances) {
  ProgramBuilder builder("allreduce_ncv4", Collective::AllReduce, 4, 2 * instances);
  for (int instance = 0; instance < instances; ++instance) {
    const auto index = [&](int rank) { return (rank & 1) * instances + instance; };
    const int channel = 2 * instance;
    for (int rank = 0; rank < 4; ++rank)
      builder.reduce(builder.input(rank ^ 1, index(rank)), builder.input(rank, index(rank)),
                     builder.output(rank, index(rank)), place(channel, instance, 0, 0));
    for (int rank = 0; rank < 4; ++rank)
      builder.copy(builder.output(rank, index(rank)), builder.scratch(rank ^ 2, instance),
                   place(channel, instance, 1, 1));
    for (int rank = 0; rank < 4; ++rank)
      builder.reduce(builder.scratch(rank, instance), builder.output(rank, index(rank)),
                     builder.output(rank, index(rank)), place(-1, instance, 2, 2));
    for (int rank = 0; rank < 4; ++rank)
      builder.copy(builder.output(rank, index(rank)), builder.output(rank ^ 1, index(rank)),
                   place(channel + 1, instance, 2, 2));
  }
  return in_place_only(lower(&builder));
}

// A chain along the ranks and back for one chunk, against them for the other.
Program all_reduce_chains(int instances) {
  ProgramBuilder builder("allreduce_ncv4", Collective::AllReduce, 4, 2 * instances);
  for (int instance = 0; instance < instances; ++instance)
    for (const int half : {0, 1}) {
      const int index = half * instances + instance;
      const auto rank = [&](int position) { return half == 0 ? position : 3 - position; };
      const Placement up = place(2 * instance + half, instance, 2 * half, 2 * half);
      const Placement down = place(2 * instance + half, instance, 2 * half + 1, 2 * half + 1);
      Chunk value = builder.input(rank(0), index);
      for (int position = 1; position < 4; ++position)
        value = builder.reduce(value, builder.input(rank(position), index),
                               builder.output(rank(position), index), up);
      for (int position = 2; position >= 0; --position)
        value = builder.copy(value, builder.output(rank(position), index), down);
    }
  return in_place_only(lower(&builder));
}

// Every rank sends everything to every other one and reduces by itself; lane x exchanges with rank
// x and reduces the x-th chunk.
Program one_pass(int ranks, int instances) {
  ProgramBuilder builder("allreduce_pairs", Collective::AllReduce, ranks, ranks * instances);
  builder.serve(true, false);
  for (int instance = 0; instance < instances; ++instance) {
    const int base = ranks * instance;
    const auto slot = [&](int rank, int from) {
      return (instance * (ranks - 1) + (from < rank ? from : from - 1)) * ranks;
    };
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to)
        if (from != to)
          builder.copy(builder.input(from, base, ranks), builder.scratch(to, slot(to, from), ranks),
                       place(instance, instance, to, from));
    for (int rank = 0; rank < ranks; ++rank)
      for (int chunk = 0; chunk < ranks; ++chunk)
        for (int from = 0; from < ranks; ++from)
          if (from != rank)
            builder.reduce(builder.scratch(rank, slot(rank, from) + chunk),
                           builder.input(rank, base + chunk), builder.input(rank, base + chunk),
                           place(-1, instance, chunk, chunk));
  }
  return lower(&builder);
}

// maxBytes as the files have it: the largest size, 0 for none.
ProgramUse use(ProgramProtocol protocol, int64_t min_bytes, int64_t max_bytes) {
  return {.begin_bytes = min_bytes,
          .end_bytes = max_bytes == 0 ? ProgramUse::kEndless : max_bytes + 1,
          .protocol = protocol};
}

constexpr ProgramProtocol kSimple = ProgramProtocol::Simple;
constexpr ProgramProtocol kLl = ProgramProtocol::LowLatency;
constexpr ProgramProtocol kLl128 = ProgramProtocol::LowLatency128;

void add_rccl_shapes(std::vector<MscclShape>* shapes) {
  const auto pairs = [&](const char* file, int instances, bool is_out_of_place,
                         const ProgramUse& pairs_use, const char* steps) {
    shapes->push_back({file, all_pairs(8, instances, is_out_of_place), pairs_use, 64 * instances,
                       instances, 8 * instances, steps, 8, 56 * instances});
  };
  pairs("allreduce-allpairs-8n-ll-32tb-op.xml", 4, true, use(kLl, 0, 65536),
        "send 448, recv 448, copy 32, reduce 1792");
  pairs("allreduce-allpairs-8n-ll-32tb.xml", 4, false, use(kLl, 0, 65536),
        "send 448, recv 448, reduce 1792");
  pairs("allreduce-allpairs-8n-ll-64tb-op.xml", 8, true, use(kLl, 65537, 524287),
        "send 896, recv 896, copy 64, reduce 3584");
  pairs("allreduce-allpairs-8n-ll-64tb.xml", 8, false, use(kLl, 65537, 524287),
        "send 896, recv 896, reduce 3584");
  pairs("allreduce-allpairs-8n-simple-op.xml", 8, true, use(kSimple, 524288, 16777216),
        "send 896, recv 896, copy 64, reduce 3584");
  pairs("allreduce-allpairs-8n-simple.xml", 8, false, use(kSimple, 524288, 11534336),
        "send 896, recv 896, reduce 3584");
  pairs("allreduce-allpairs-8n-simple_2.xml", 8, false, use(kSimple, 14680065, 16777216),
        "send 896, recv 896, reduce 3584");
  shapes->push_back({"alltoall-8n-0-9kb.xml", all_to_all(8, 1, 1, Lanes::Apart), use(kLl, 0, 9216),
                     8, 1, 15, "send 56, recv 56, copy 8"});
  shapes->push_back({"alltoall-8n-190kb-512kb.xml", all_to_all(8, 1, 4, Lanes::Apart),
                     use(kLl, 194561, 524288), 32, 4, 60, "send 224, recv 224, copy 32"});
  shapes->push_back({"alltoall-8n-512kb-7mb.xml", all_to_all(8, 8, 4, Lanes::Apart),
                     use(kSimple, 524289, 7340032), 32, 32, 60, "send 224, recv 224, copy 32"});
  shapes->push_back({"alltoall-8n-7mb-43mb.xml", all_to_all(8, 1, 8, Lanes::Shared),
                     use(kSimple, 7340033, 45088768), 64, 8, 64, "send 448, recv 448, copy 64"});
  shapes->push_back({"alltoall-8n-9kb-190kb.xml", all_to_all(8, 1, 2, Lanes::Apart),
                     use(kLl, 9217, 194560), 16, 2, 30, "send 112, recv 112, copy 16"});
  const char* steps =
      "send 384, recv 384, recv_copy_send 5376, recv_reduce_send 5376, recv_reduce_copy_send 384";
  shapes->push_back(
      {"all-reduce-ring-ll.xml", ring(16, 1, 24), use(kLl, 0, 12287), 384, 24, 24, steps});
  shapes->push_back({"all-reduce-ring-ll128.xml", ring(16, 1, 24), use(kLl128, 12288, 393215), 384,
                     24, 24, steps});
  shapes->push_back(
      {"all-reduce-ring-simple.xml", ring(16, 1, 24), use(kSimple, 393216, 0), 384, 24, 24, steps});
}

void add_azure_shapes(std::vector<MscclShape>* shapes) {
  const auto add = [&](const char* file, Program program, const ProgramUse& shape_use, int chunks,
                       int channels, int tbs, const char* steps, int count = 1, int scratch = 0) {
    shapes->push_back(
        {file, std::move(program), shape_use, chunks, channels, tbs, steps, count, scratch});
  };
  const char* hierarchical = "send 32, recv 32, recv_copy_send 16, copy 16";
  add("ag_hier_4_LL.xml", all_gather_hierarchical(4), use(kLl, 64, 792576), 16, 4, 12,
      hierarchical);
  add("ag_hier_4_Simple.xml", all_gather_hierarchical(4), use(kSimple, 792576, 1073741824), 16, 4,
      12, hierarchical);
  add("ar_hier_12_Simple.xml", all_reduce_hierarchical(12), use(kSimple, 617472, 1073741824), 24,
      24, 36, "send 144, recv 96, recv_reduce_copy 48, reduce 48", 1, 12);
  add("ar_tree_12_LL.xml", all_reduce_chains(12), use(kLl, 96, 617472), 24, 24, 48,
      "send 48, recv 24, recv_copy_send 48, recv_reduce_send 48, recv_reduce_copy 24");
  add("a2a2ll.xml", all_to_all(8, 1, 2, Lanes::ApartWithCopy), use(kLl, 0, 40959), 16, 2, 28,
      "send 112, recv 112, copy 16");
  add("a2a4ll.xml", all_to_all(8, 1, 4, Lanes::ApartWithCopy), use(kLl, 40960, 266240), 32, 4, 56,
      "send 224, recv 224, copy 32");
  const char* gather_4 = "send 224, recv 224";
  add("ag-16m.xml", all_gather_direct(8, 1, 4), use(kSimple, 16777216, 33554431), 32, 4, 56,
      gather_4);
  add("ag-1k-512k.xml", all_gather_direct(8, 8, 2), use(kLl, 1024, 1048575), 16, 16, 28,
      "send 112, recv 112");
  add("ag-1m.xml", all_gather_direct(8, 8, 4), use(kLl, 1048576, 2097151), 32, 32, 56, gather_4);
  add("ag-2m.xml", all_gather_direct(8, 8, 4), use(kLl128, 2097152, 4194303), 32, 32, 56, gather_4);
  add("ag-32m-1g.xml", all_gather_ring(8, 32), use(kSimple, 33554432, 1073741824), 256, 32, 32,
      "send 256, recv 256, recv_copy_send 1536");
  add("ag-4m.xml", all_gather_direct(8, 8, 4), use(kSimple, 4194304, 8388607), 32, 32, 56,
      gather_4);
  add("ag-8m.xml", all_gather_direct(8, 8, 4), use(kSimple, 8388608, 16777215), 32, 32, 56,
      gather_4);
  add("ap2ll.xml", all_pairs(8, 2, false), use(kLl, 32769, 40959), 128, 2, 16,
      "send 224, recv 224, reduce 896", 8, 112);
  add("ap4ll.xml", all_pairs(8, 4, false), use(kLl, 40960, 266239), 256, 4, 32,
      "send 448, recv 448, reduce 1792", 8, 224);
  const char* ring_8 =
      "send 64, recv 64, recv_copy_send 384, recv_reduce_send 384, recv_reduce_copy_send 64";
  add("r48ll.xml", in_place_only(ring(8, 4, 8)), use(kLl, 266240, 2078719), 64, 32, 32, ring_8);
  add("r48ll128.xml", in_place_only(ring(8, 4, 8)), use(kLl128, 2078720, 20971520), 64, 32, 32,
      ring_8);
}

// The text of `line` between `start` and the next quote.
std::string value_after(const std::string& line, const std::string& start) {
  const size_t at = line.find(start);
  if (at == std::string::npos) return "";
  const size_t first = at + start.size();
  return line.substr(first, line.find('"', first) - first);
}

void replace(std::string* line, const std::string& from, const std::string& to) {
  const size_t at = line->find(from);
  if (at != std::string::npos) line->replace(at, from.size(), to);
}

}  // namespace

std::vector<MscclShape> make_msccl_shapes() {
  std::vector<MscclShape> shapes;
  add_rccl_shapes(&shapes);
  add_azure_shapes(&shapes);
  return shapes;
}

MscclShape make_one_pass_shape() {
  return {"ap-1pass.xml",
          one_pass(8, 4),
          use(kLl, 0, 32768),
          32,
          4,
          32,
          "send 224, recv 224, reduce 1792",
          8,
          224};
}

std::string write_like_msccl_tools(const MscclShape& shape) {
  const Result<std::string> written = write_xml(shape.program, XmlDialect::Msccl, shape.use);
  const std::string error = written.status().to_string();
  MCCL_CHECK_EQ(error, "ok");
  std::string text;
  size_t at = 0;
  while (at < written.value().size()) {
    const size_t end = written.value().find('\n', at) + 1;
    std::string line = written.value().substr(at, end - at);
    at = end;
    const bool is_step = line.find("<step") != std::string::npos;
    if (is_step && line.find("type=\"nop\"") == std::string::npos) {
      replace(&line, "srcoff=\"-1\"", "srcoff=\"" + value_after(line, "dstoff=\"") + "\"");
      replace(&line, "dstoff=\"-1\"", "dstoff=\"" + value_after(line, "srcoff=\"") + "\"");
    }
    text += line;
  }
  return text;
}

}  // namespace mccl
