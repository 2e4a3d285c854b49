// Places and faults over a parser that has neither for attributes. The parser works in place on a
// copy of the text, so that the name of every element and attribute is a pointer into that copy and
// its distance from the start is the position. Lines and columns are counted once, at the end, in
// one pass over the text; memory is a small multiple of the text's size.
#include "ir/xml_document.h"

#include <algorithm>
#include <array>
#include <limits>

namespace mccl {
namespace {

// More than any element needs, few enough that looking for doubles may be quadratic.
constexpr size_t kAttributesMax = 32;
constexpr size_t kQuotedBytesMax = 40;

const char* parse_status_text(pugi::xml_parse_status status) {
  switch (status) {
    case pugi::status_ok:
      return "no error";
    case pugi::status_file_not_found:
      return "no file";
    case pugi::status_io_error:
      return "the text could not be read";
    case pugi::status_out_of_memory:
      return "not enough memory";
    case pugi::status_internal_error:
      return "the parser failed";
    case pugi::status_unrecognized_tag:
      return "this is not a tag";
    case pugi::status_bad_pi:
      return "a processing instruction or declaration is not closed";
    case pugi::status_bad_comment:
      return "a comment is not closed";
    case pugi::status_bad_cdata:
      return "a CDATA section is not closed";
    case pugi::status_bad_doctype:
      return "a document type is not closed";
    case pugi::status_bad_pcdata:
      return "text is not closed";
    case pugi::status_bad_start_element:
      return "a start tag is not closed";
    case pugi::status_bad_attribute:
      return "an attribute is not of the form name=\"value\"";
    case pugi::status_bad_end_element:
      return "an end tag is not closed";
    case pugi::status_end_element_mismatch:
      return "start and end tags do not match";
    case pugi::status_append_invalid_root:
      return "no root";
    case pugi::status_no_document_element:
      return "there is no element";
  }
  return "unknown error";
}

std::string element_text(pugi::xml_node element) {
  std::string name = element.name();
  if (name.size() > kQuotedBytesMax) name = name.substr(0, kQuotedBytesMax) + "...";
  std::replace_if(
      name.begin(), name.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return "<" + name + ">";
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text) : text_(text) {
  const size_t nul = text.find('\0');
  if (text.size() > kXmlBytesMax)
    add_fault_at(0, "the text has " + std::to_string(text.size()) + " bytes, more than " +
                        std::to_string(kXmlBytesMax));
  else if (nul != std::string_view::npos)
    add_fault_at(nul, "malformed XML: a zero byte");
  else
    parse();
}

void XmlDocument::parse() {
  buffer_ = text_;
  // Fragments, document types and CDATA are parsed only to be refused with a place.
  const unsigned flags =
      pugi::parse_escapes | pugi::parse_fragment | pugi::parse_doctype | pugi::parse_cdata;
  const pugi::xml_parse_result result =
      document_.load_buffer_inplace(buffer_.data(), buffer_.size(), flags, pugi::encoding_utf8);
  const auto offset = static_cast<size_t>(result.offset);
  if (result)
    find_root();
  else if (result.status == pugi::status_end_element_mismatch && offset + 1 >= text_.size())
    add_fault_at(text_.size(), "malformed XML: the text ends before all elements are closed");
  else
    add_fault_at(offset, std::string("malformed XML: ") + parse_status_text(result.status));
}

void XmlDocument::find_root() {
  for (const pugi::xml_node node : document_.children()) {
    if (node.type() == pugi::node_doctype)
      add_fault(node, "a document type is not part of a program");
    else if (node.type() != pugi::node_element)
      add_fault(node, "text outside of the root element");
    else if (root_)
      add_fault(node, "a second root element " + element_text(node));
    else
      root_ = node;
  }
  if (!root_ && faults_.empty()) add_fault_at(0, "malformed XML: there is no element");
}

size_t XmlDocument::offset_of(pugi::xml_node node) const {
  const ptrdiff_t found = node.offset_debug();
  if (found < 0) return 0;
  const auto offset = static_cast<size_t>(found);
  // The parser points at an element's name, and at the blanks before a text.
  if (node.type() == pugi::node_element) return offset - 1;
  return std::min(text_.find_first_not_of(" \t\r\n", offset), text_.size());
}

void XmlDocument::add_fault(pugi::xml_node element, std::string text) {
  add_fault_at(offset_of(element), std::move(text));
}

void XmlDocument::add_fault(pugi::xml_node element, const char* attribute, std::string text) {
  const pugi::xml_attribute found = element.attribute(attribute);
  if (!found) return add_fault(element, std::move(text));
  add_fault_at(static_cast<size_t>(found.name() - buffer_.data()), std::move(text));
}

void XmlDocument::add_fault_at(size_t offset, std::string text) {
  if (!is_full()) faults_.push_back({offset, std::move(text)});
}

std::vector<XmlFault> XmlDocument::make_faults() {
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const RawFault& a, const RawFault& b) { return a.offset < b.offset; });
  std::vector<XmlFault> faults;
  int line = 1;
  size_t line_start = 0;
  size_t newline = text_.find('\n');  // the end of the line, kept: a line may be the whole text
  for (RawFault& raw : faults_) {
    const size_t offset = std::min(raw.offset, text_.size());
    while (newline < offset) {
      ++line;
      line_start = newline + 1;
      newline = text_.find('\n', line_start);
    }
    faults.push_back({line, static_cast<int>(offset - line_start) + 1, std::move(raw.text)});
  }
  if (is_full())
    faults.push_back({faults.back().line, faults.back().column,
                      "reading stopped after " + std::to_string(kXmlFaultsMax) + " faults"});
  return faults;
}

std::vector<pugi::xml_node> XmlDocument::read_children(pugi::xml_node parent, const char* name,
                                                       int max) {
  std::vector<pugi::xml_node> nodes;
  for (const pugi::xml_node node : parent.children()) {
    if (is_full()) break;
    if (node.type() != pugi::node_element) {
      add_fault(node, "text in " + element_text(parent));
    } else if (name == nullptr || std::string_view(node.name()) != name) {
      if (!ignores_unknown_)
        add_fault(node, element_text(node) + " does not belong into " + element_text(parent));
    } else if (nodes.size() == static_cast<size_t>(max)) {
      add_fault(node, "more than " + std::to_string(max) + " elements " + element_text(node));
      break;
    } else {
      nodes.push_back(node);
    }
  }
  return nodes;
}

std::vector<pugi::xml_node> XmlDocument::read_numbered_children(pugi::xml_node parent,
                                                                const char* name, int max,
                                                                bool* are_ids_known) {
  const std::vector<pugi::xml_node> nodes = read_children(parent, name, max);
  std::vector<pugi::xml_node> sorted(nodes.size());
  *are_ids_known = true;
  for (const pugi::xml_node node : nodes) {
    if (is_full()) break;
    const std::optional<int> id = read_int(node, "id", 0, static_cast<int>(nodes.size()) - 1);
    if (!id) {
      *are_ids_known = false;
    } else if (pugi::xml_node& slot = sorted[static_cast<size_t>(*id)]; slot) {
      add_fault(node, "id", "a second " + element_text(node) + " with id " + std::to_string(*id));
      *are_ids_known = false;
    } else {
      slot = node;
    }
  }
  *are_ids_known &= !is_full();
  return *are_ids_known ? sorted : nodes;
}

void XmlDocument::check_attributes(pugi::xml_node element,
                                   std::initializer_list<std::string_view> known) {
  std::array<std::string_view, kAttributesMax> names;
  size_t name_count = 0;
  for (const pugi::xml_attribute attribute : element.attributes()) {
    const std::string_view name = attribute.name();
    const auto offset = static_cast<size_t>(attribute.name() - buffer_.data());
    if (name_count == kAttributesMax) {
      return add_fault_at(offset, "more than " + std::to_string(kAttributesMax) + " attributes");
    }
    const auto seen_end = names.begin() + static_cast<ptrdiff_t>(name_count);
    if (std::find(names.begin(), seen_end, name) != seen_end)
      add_fault_at(offset, quote_attribute(name, attribute.value()) + " is given twice");
    else if (!ignores_unknown_ && std::find(known.begin(), known.end(), name) == known.end())
      add_fault_at(offset, element_text(element) + " has no attribute " +
                               quote_attribute(name, attribute.value()));
    names[name_count++] = name;
  }
}

std::optional<std::string_view> XmlDocument::read_text(pugi::xml_node element,
                                                       const char* attribute) {
  const pugi::xml_attribute found = element.attribute(attribute);
  if (found) return std::string_view(found.value());
  add_fault(element, element_text(element) + " lacks the attribute " + attribute);
  return std::nullopt;
}

std::optional<int64_t> XmlDocument::read_number(pugi::xml_node element, const char* attribute,
                                                int64_t min, int64_t max) {
  const std::optional<std::string_view> text = read_text(element, attribute);
  if (!text) return std::nullopt;
  const std::optional<int64_t> number = parse_decimal(*text);
  if (!number)
    add_fault(element, attribute, quote_attribute(attribute, *text) + " is not a decimal number");
  else if (*number < min || *number > max)
    add_fault(element, attribute,
              quote_attribute(attribute, *text) + " is outside " + std::to_string(min) + ".." +
                  std::to_string(max));
  else
    return number;
  return std::nullopt;
}

std::optional<int> XmlDocument::read_int(pugi::xml_node element, const char* attribute, int min,
                                         int max) {
  const std::optional<int64_t> number = read_number(element, attribute, min, max);
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

void XmlDocument::check_position(pugi::xml_node element, const char* attribute, int position) {
  const std::optional<int> number = read_int(element, attribute, 0, static_cast<int>(kXmlBytesMax));
  if (number && *number != position)
    add_fault(element, attribute,
              quote_attribute(attribute, std::to_string(*number)) + ", but " +
                  element_text(element) + " number " + std::to_string(position) + " is due here");
}

std::optional<int64_t> parse_decimal(std::string_view text) {
  const bool is_negative = !text.empty() && text.front() == '-';
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  if (digits.empty() || (digits.front() == '0' && (digits.size() > 1 || is_negative)))
    return std::nullopt;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t number = 0;
  for (const char byte : digits) {
    if (byte < '0' || byte > '9') return std::nullopt;
    const int64_t digit = byte - '0';
    number = number > (kMax - digit) / 10 ? kMax : number * 10 + digit;
  }
  return is_negative ? -number : number;
}

std::string quote_attribute(std::string_view name, std::string_view value) {
  const auto shorten = [](std::string_view text) {
    std::string result(text.substr(0, kQuotedBytesMax));
    std::replace_if(
        result.begin(), result.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
    return text.size() > kQuotedBytesMax ? result + "..." : result;
  };
  return shorten(name) + "=\"" + shorten(value) + "\"";
}

}  // namespace mccl
