// SPDX-License-Identifier: Apache-2.0
#include "base/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxElements = 500'000;

/// Copies a parsed document into our tree, within the limits.
class XmlCopy {
 public:
  /// False once a limit is passed: fault() says which.
  bool Copy(const pugi::xml_node& from, XmlElement& to, int depth) {
    if (depth > kMaxDepth) return Refuse("is nested more than 64 deep");
    if (++elements_ > kMaxElements) return Refuse("has more than 500,000 elements");
    to.name = from.name();
    for (const pugi::xml_attribute attribute : from.attributes()) {
      to.attributes.emplace_back(attribute.name(), attribute.value());
    }
    for (const pugi::xml_node child : from.children()) {
      if (child.type() == pugi::node_element) {
        if (!Copy(child, to.children.emplace_back(), depth + 1)) return false;
      } else {
        to.text += child.value();
      }
    }
    to.text = std::string(Trimmed(to.text));
    return true;
  }
  const char* fault() const { return fault_; }

 private:
  bool Refuse(const char* fault) {
    fault_ = fault;
    return false;
  }

  const char* fault_ = "";
  size_t elements_ = 0;
};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Source: XML 1.0, fifth edition, production 2 (Char).
bool IsXmlChar(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r';
  return sequence != "\xEF\xBF\xBE" && sequence != "\xEF\xBF\xBF";
}

/// Bytes that XML has no place for become U+FFFD, one by one.
std::string ToXmlText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    const std::string_view sequence = bytes.substr(0, std::max<size_t>(length, 1));
    const bool is_fine = length > 0 && IsXmlChar(sequence);
    text += is_fine ? sequence : kReplacement;
    bytes.remove_prefix(sequence.size());
  }
  return text;
}

void Fill(pugi::xml_node node, const XmlElement& from) {
  for (const auto& [name, value] : from.attributes) {
    HVDRAY_CHECK(node.append_attribute(name.c_str()).set_value(ToXmlText(value).c_str()));
  }
  if (!from.text.empty()) HVDRAY_CHECK(node.text().set(ToXmlText(from.text).c_str()));
  for (const XmlElement& child : from.children) Fill(node.append_child(child.name.c_str()), child);
}

struct StringWriter : pugi::xml_writer {
  std::string out;
  void write(const void* data, size_t size) override {
    out.append(static_cast<const char*>(data), size);
  }
};

}  // namespace

const XmlElement* XmlElement::Find(std::string_view path) const {
  const size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  for (const XmlElement& child : children) {
    if (child.name != first) continue;
    return slash == std::string_view::npos ? &child : child.Find(path.substr(slash + 1));
  }
  return nullptr;
}

const std::string& XmlElement::TextAt(std::string_view path) const {
  static const std::string none;
  const XmlElement* found = Find(path);
  return found == nullptr ? none : found->text;
}

std::vector<const XmlElement*> XmlElement::ItemsAt(std::string_view path,
                                                   std::string_view item) const {
  std::vector<const XmlElement*> items;
  const XmlElement* list = Find(path);
  if (list == nullptr) return items;
  for (const XmlElement& child : list->children) {
    if (child.name == item) items.push_back(&child);
  }
  return items;
}

Result<XmlElement> ParseXml(ByteView text, size_t limit_bytes) {
  if (text.size() > limit_bytes) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("XML of {} bytes, at most {} allowed", text.size(), limit_bytes));
  }
  pugi::xml_document document;
  // parse_doctype only so that a document type is seen, and refused below.
  constexpr unsigned kOptions =
      pugi::parse_cdata | pugi::parse_escapes | pugi::parse_eol | pugi::parse_doctype;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), kOptions, pugi::encoding_utf8);
  if (!parsed) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("invalid XML at byte {}: {}", parsed.offset, parsed.description()));
  }
  for (const pugi::xml_node node : document.children()) {
    if (node.type() == pugi::node_doctype) {
      return Status(ErrorCode::kProtocolError, "XML with a document type");
    }
  }
  XmlElement root;
  XmlCopy copy;
  if (!copy.Copy(document.document_element(), root, 1)) {
    return Status(ErrorCode::kProtocolError, fmt::format("XML that {}", copy.fault()));
  }
  return root;
}

std::string WriteXml(const XmlElement& root) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version").set_value("1.0");
  declaration.append_attribute("encoding").set_value("UTF-8");
  Fill(document.append_child(root.name.c_str()), root);
  StringWriter writer;
  document.save(writer, "  ", pugi::format_indent, pugi::encoding_utf8);
  return std::move(writer.out);
}

}  // namespace hvdray
