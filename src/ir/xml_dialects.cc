#include "ir/xml_dialects.h"

#include <algorithm>
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
    case XmlField::Outputs:
      return "outputs";
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
    case XmlField::Outputs:
      return "outputs";
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

std::string write_outputs(const CustomRank& promise) {
  std::string text;
  for (const std::vector<Contribution>& wanted : promise.outputs) {
    if (!text.empty()) text += ' ';
    if (wanted.empty()) text += '-';
    for (size_t part = 0; part < wanted.size(); ++part)
      text += (part > 0 ? "+" : "") + std::to_string(wanted[part].rank) + ":" +
              std::to_string(wanted[part].index);
  }
  return text;
}

namespace {

// "0:1", both numbers below any limit on ranks and chunks.
std::optional<Contribution> parse_contribution(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> rank = parse_decimal(word.substr(0, colon));
  const std::optional<int64_t> index = parse_decimal(word.substr(colon + 1));
  if (!rank || !index || *rank < 0 || *index < 0 || *rank >= kXmlRanksMax ||
      *index >= kXmlChunksMax)
    return std::nullopt;
  return Contribution{static_cast<int>(*rank), static_cast<int>(*index)};
}

// "-", or contributions joined by "+".
std::optional<std::vector<Contribution>> parse_promise(std::string_view word) {
  std::vector<Contribution> wanted;
  if (word == "-") return wanted;
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find('+', begin), word.size());
    const std::optional<Contribution> part = parse_contribution(word.substr(begin, end - begin));
    if (!part) return std::nullopt;
    wanted.push_back(*part);
    begin = end + 1;
  }
  return wanted;
}

}  // namespace

void read_outputs(XmlDocument* document, pugi::xml_node element, CustomRank* promise) {
  for_each_word(element.attribute("outputs").value(), [&](std::string_view word) {
    std::optional<std::vector<Contribution>> wanted = parse_promise(word);
    if (!wanted)
      document->add_fault(element, "outputs",
                          quote_attribute("outputs", word) +
                              " is not a promise; one is -, 0:1 or 0:1+1:1 (rank, input chunk)");
    promise->outputs.push_back(wanted ? *std::move(wanted) : std::vector<Contribution>());
  });
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
