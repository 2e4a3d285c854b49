#include "ir/xml_dialects.h"

#include <array>

namespace mccl {

const char* mccl_attribute(XmlField field) {
  switch (field) {
    case XmlField::Name:
      return "name";
    case XmlField::Ranks:
      return "ranks";
    case XmlField::Chunks:
      return "chunks";
    case XmlField::Claims:
      return "in_place";
    case XmlField::Scratch:
      return "scratch_chunks";
    case XmlField::Send:
      return "send";
    case XmlField::Recv:
      return "recv";
    case XmlField::Channel:
      return "channel";
    case XmlField::Op:
      return "op";
    case XmlField::Sources:
    case XmlField::Source:
      return "src";
    case XmlField::Destinations:
    case XmlField::Counts:
    case XmlField::Destination:
      return "dst";
    case XmlField::Depends:
      return "depends";
  }
  return "";
}

const char* msccl_attribute(XmlField field) {
  switch (field) {
    case XmlField::Name:
      return "name";
    case XmlField::Ranks:
      return "ngpus";
    case XmlField::Chunks:
      return "nchunksperloop";
    case XmlField::Claims:
      return "inplace";
    case XmlField::Scratch:
      return "s_chunks";
    case XmlField::Send:
      return "send";
    case XmlField::Recv:
      return "recv";
    case XmlField::Channel:
      return "chan";
    case XmlField::Op:
      return "type";
    case XmlField::Sources:
    case XmlField::Source:
      return "srcoff";
    case XmlField::Destinations:
    case XmlField::Destination:
      return "dstoff";
    case XmlField::Counts:
      return "cnt";
    case XmlField::Depends:
      return "deps";
  }
  return "";
}

char buffer_letter(Buffer buffer) {
  return *buffer_name(buffer);
}

std::optional<Buffer> find_buffer(std::string_view letter) {
  for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch})
    if (letter.size() == 1 && letter.front() == buffer_letter(buffer)) return buffer;
  return std::nullopt;
}

std::string_view msccl_collective_name(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return "allreduce";
    case Collective::AllGather:
      return "allgather";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::ReduceScatter:
      return "reduce_scatter";
    case Collective::Reduce:
      return "reduce";
    case Collective::Gather:
      return "gather";
    case Collective::Scatter:
      return "scatter";
    case Collective::AllToAll:
      return "alltoall";
    case Collective::Custom:
      return "custom";
  }
  return "";
}

void check_declared_rank_count(XmlDocument* document, const char* count, const char* name,
                               XmlProgramSource* source) {
  const pugi::xml_node root = document->root();
  const std::optional<int> declared = document->read_int(root, count, 1, kXmlRanksMax);
  const auto found = static_cast<int>(source->ranks.size());
  if (declared && *declared == found) return;
  source->are_ranks_known = false;
  if (declared)
    document->add_fault(root, count,
                        quote_attribute(count, std::to_string(*declared)) + ", but there are " +
                            std::to_string(found) + " elements <" + name + ">");
}

}  // namespace mccl
