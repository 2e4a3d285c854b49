// MSCCL's loaders come with a parser written by hand: no declaration, values in double quotes, one
// blank before each attribute and nothing else between them, no entities, 16 attributes, 255 bytes
// a value, and only blanks and line ends between tags. What it makes of anything else ranges from
// an error to another value. One pass over the text.
#include "ir/xml_loader_text.h"

#include <algorithm>

namespace mccl {
namespace {

constexpr size_t kLoaderAttributesMax = 16;
constexpr size_t kLoaderValueBytesMax = 255;

bool is_blank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

// A start tag from its '<' on; reports at most one place. Returns the offset after its '>'.
class TagScan {
 public:
  TagScan(std::string_view text, size_t start, const LoaderTextReport& report)
      : text_(text), at_(start), report_(report) {}

  size_t scan() {
    while (at_ < text_.size() && !is_blank(text_[at_]) && !is_end()) ++at_;
    size_t attribute_count = 0;
    while (at_ < text_.size()) {
      const size_t blanks_at = at_;
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (at_ >= text_.size() || is_end()) break;
      if (text_.substr(blanks_at, at_ - blanks_at) != " ")
        fault(blanks_at, "there must be one blank before an attribute, nothing else");
      if (++attribute_count == kLoaderAttributesMax + 1)
        fault(at_, "an element has at most 16 attributes, the others are ignored");
      scan_attribute();
    }
    return std::min(text_.find('>', at_), text_.size() - 1) + 1;
  }

 private:
  bool is_end() const { return text_[at_] == '>' || text_[at_] == '/'; }

  void scan_attribute() {
    const size_t equals = std::min(text_.find('=', at_), text_.size());
    const size_t quote = std::min(text_.find_first_of("\"'", equals), text_.size());
    const std::string_view name = text_.substr(at_, equals - at_);
    if (quote != equals + 1 || std::any_of(name.begin(), name.end(), is_blank))
      fault(at_, "there must be no blanks around the = of an attribute");
    if (quote == text_.size()) {
      at_ = quote;
      return;
    }
    if (text_[quote] == '\'')
      fault(quote, "a value must be in double quotes: it runs on to the next one");
    const size_t end = std::min(text_.find(text_[quote], quote + 1), text_.size());
    const std::string_view value = text_.substr(quote + 1, end - quote - 1);
    if (value.find('&') != std::string_view::npos)
      fault(quote, "a value must not have entities: they are taken literally");
    if (value.size() > kLoaderValueBytesMax)
      fault(quote, "a value has at most 255 bytes, this one " + std::to_string(value.size()));
    at_ = std::min(end + 1, text_.size());
  }

  void fault(size_t offset, std::string text) {
    if (!has_fault_) report_(offset, std::move(text));
    has_fault_ = true;
  }

  std::string_view text_;
  size_t at_;
  const LoaderTextReport& report_;
  bool has_fault_ = false;
};

}  // namespace

void check_loader_text(std::string_view text, const LoaderTextReport& report) {
  const auto skip = [&](size_t at, std::string_view end) {
    const size_t found = text.find(end, at);
    return found == std::string_view::npos ? text.size() : found + end.size();
  };
  size_t at = 0;
  bool has_tab = false;  // told once
  while (at < text.size()) {
    const size_t open = std::min(text.find('<', at), text.size());
    const size_t tab = text.substr(at, open - at).find('\t');
    if (tab != std::string_view::npos && !has_tab) {
      report(at + tab, "there must be no tab between tags");
      has_tab = true;
    }
    const std::string_view rest = text.substr(open);
    if (rest.starts_with("<!--")) {
      at = skip(open, "-->");
    } else if (rest.starts_with("<?")) {
      report(open, "there must be no XML declaration or processing instruction");
      at = skip(open, "?>");
    } else if (rest.starts_with("</")) {
      at = skip(open, ">");
    } else if (rest.empty()) {
      at = text.size();
    } else {
      at = TagScan(text, open, report).scan();
    }
  }
}

}  // namespace mccl
