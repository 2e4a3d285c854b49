// A parsed XML text that knows where everything stands and collects faults. Internal to the
// readers: the only place that sees the XML parser.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/xml.h"

namespace mccl {

class XmlDocument {
 public:
  // Parses `text`, which must outlive this. Malformed text leaves a null root and a fault.
  explicit XmlDocument(std::string_view text);
  XmlDocument(const XmlDocument&) = delete;
  XmlDocument& operator=(const XmlDocument&) = delete;

  pugi::xml_node root() const { return root_; }
  // What to do with elements and attributes that nobody knows: fault (default) or nothing.
  void ignore_unknown() { ignores_unknown_ = true; }

  // At the attribute's name when the element has it, else at the element.
  void add_fault(pugi::xml_node element, const char* attribute, std::string text);
  void add_fault(pugi::xml_node element, std::string text);
  void add_fault_at(size_t offset, std::string text);
  // Reading on is pointless: a hostile text must not cost a message per byte.
  bool is_full() const { return faults_.size() >= kXmlFaultsMax; }
  // Bytes from the start of the text to the element.
  size_t offset_of(pugi::xml_node node) const;
  // In document order, with lines and columns.
  std::vector<XmlFault> make_faults();

  // The child elements called `name` (null: none are expected), at most `max` of them. Text and
  // unknown elements between them are faults.
  std::vector<pugi::xml_node> read_children(pugi::xml_node parent, const char* name, int max);
  // As above, in the order of their attribute `id`, which runs over 0..n-1. When the ids are at
  // fault
  // (*are_ids_known false) in document order.
  std::vector<pugi::xml_node> read_numbered_children(pugi::xml_node parent, const char* name,
                                                     int max, bool* are_ids_known);

  // Faults attributes that are there twice, unknown or too many.
  void check_attributes(pugi::xml_node element, std::initializer_list<std::string_view> known);
  // The value; a missing attribute is a fault and empty.
  std::optional<std::string_view> read_text(pugi::xml_node element, const char* attribute);
  // A plain decimal number in min..max; everything else is a fault and empty.
  std::optional<int64_t> read_number(pugi::xml_node element, const char* attribute, int64_t min,
                                     int64_t max);
  std::optional<int> read_int(pugi::xml_node element, const char* attribute, int min, int max);
  // Faults an attribute that is not the number `position` of the element among its siblings.
  void check_position(pugi::xml_node element, const char* attribute, int position);

 private:
  struct RawFault {
    size_t offset;
    std::string text;
  };

  void parse();
  void find_root();
  std::string_view text_;
  std::string buffer_;  // the parser works in place, so names point into it
  pugi::xml_document document_;
  pugi::xml_node root_;
  bool ignores_unknown_ = false;
  std::vector<RawFault> faults_;
};

// Calls `visit` for each word of a list separated by blanks.
template <typename Visit>
void for_each_word(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The number, saturated, when `text` is a plain decimal number: no sign but one leading minus, no
// leading zeros, no blanks.
std::optional<int64_t> parse_decimal(std::string_view text);

// `name="value"` for messages: shortened, and with unprintable bytes replaced.
std::string quote_attribute(std::string_view name, std::string_view value);

}  // namespace mccl
