// What the two dialects' readers and writers share. Internal to ir.
#pragma once

#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/xml_document.h"
#include "ir/xml_structure.h"
#include "mccl/program.h"

namespace mccl {

// The elements that a program was read from, and which parts of them were understood: what was not
// is already a fault, and findings that only follow from it are dropped.
struct XmlStepSource {
  pugi::xml_node element;
  bool is_understood = true;
};
struct XmlLaneSource {
  pugi::xml_node element;
  bool is_understood = true;  // peers and channel
  std::vector<XmlStepSource> steps;
};
struct XmlRankSource {
  pugi::xml_node element;
  std::vector<XmlLaneSource> lanes;
  bool are_lanes_known = true;  // lane numbers, which dependences speak about
};
struct XmlProgramSource {
  std::vector<XmlRankSource> ranks;
  bool are_ranks_known = true;  // rank numbers, which peers speak about
  bool are_sizes_known = true;  // collective and chunk count
};

// Fill program, use and source from document's root, which is theirs.
void read_mccl_dialect(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source);
void read_msccl_dialect(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source);

// The attribute that holds a field.
const char* mccl_attribute(XmlField field);
const char* msccl_attribute(XmlField field);

// What a custom collective promises a rank, as both dialects say it: a word per output chunk, "-"
// or contributions joined by "+", as in "0:1 0:2+1:2 -".
std::string write_outputs(const CustomRank& promise);
// Reads attribute `outputs` of `element`; every word that is none is a fault.
void read_outputs(XmlDocument* document, pugi::xml_node element, CustomRank* promise);

// "i", "o", "s" in both dialects.
char buffer_letter(Buffer buffer);
std::optional<Buffer> find_buffer(std::string_view letter);

// "allreduce", "allgather", "broadcast".
std::string_view msccl_collective_name(Collective collective);

// Faults an attribute `count` that does not say how many elements called `name` there are.
void check_declared_rank_count(XmlDocument* document, const char* count, const char* name,
                               XmlProgramSource* source);

}  // namespace mccl
