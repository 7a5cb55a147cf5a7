#include "base/xml.h"

#include <algorithm>
#include <pugixml.hpp>

#include "base/status.h"
#include "base/utf8.h"

namespace hvdray {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// The ASCII part of XML's names; ours need no other.
bool IsName(std::string_view name) {
  if (name.empty() || !IsNameStart(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return IsNameStart(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

/// Source: XML 1.0, fifth edition, production 2 (Char).
bool IsXmlChar(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r';
  return sequence != "\xEF\xBF\xBE" && sequence != "\xEF\xBF\xBF";
}

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

struct StringWriter : pugi::xml_writer {
  std::string out;
  void write(const void* data, size_t size) override {
    out.append(static_cast<const char*>(data), size);
  }
};

}  // namespace

struct XmlDocument::Impl {
  pugi::xml_document document;
};

XmlElement XmlElement::Child(std::string_view name) {
  HVDRAY_CHECK(IsName(name));
  pugi::xml_node child = pugi::xml_node(node_).append_child(std::string(name).c_str());
  HVDRAY_CHECK(!child.empty());
  return XmlElement(child.internal_object());
}

XmlElement& XmlElement::Attribute(std::string_view name, std::string_view value) {
  HVDRAY_CHECK(IsName(name));
  const std::string key(name);
  pugi::xml_node node(node_);
  pugi::xml_attribute attribute = node.attribute(key.c_str());
  if (attribute.empty()) attribute = node.append_attribute(key.c_str());
  HVDRAY_CHECK(attribute.set_value(ToXmlText(value).c_str()));
  return *this;
}

XmlElement& XmlElement::Attribute(std::string_view name, int64_t value) {
  return Attribute(name, std::to_string(value));
}

XmlElement& XmlElement::Text(std::string_view text) {
  if (text.empty()) return *this;
  pugi::xml_node child = pugi::xml_node(node_).append_child(pugi::node_pcdata);
  HVDRAY_CHECK(child.set_value(ToXmlText(text).c_str()));
  return *this;
}

XmlDocument::XmlDocument() : impl_(std::make_unique<Impl>()) {}
XmlDocument::XmlDocument(XmlDocument&&) noexcept = default;
XmlDocument& XmlDocument::operator=(XmlDocument&&) noexcept = default;
XmlDocument::~XmlDocument() = default;

XmlElement XmlDocument::Root(std::string_view name) {
  HVDRAY_CHECK(IsName(name));
  HVDRAY_CHECK(impl_->document.document_element().empty());
  pugi::xml_node declaration = impl_->document.append_child(pugi::node_declaration);
  declaration.append_attribute("version").set_value("1.0");
  declaration.append_attribute("encoding").set_value("UTF-8");
  return XmlElement(impl_->document.append_child(std::string(name).c_str()).internal_object());
}

std::string XmlDocument::ToString() const {
  StringWriter writer;
  impl_->document.save(writer, "  ", pugi::format_indent, pugi::encoding_utf8);
  return std::move(writer.out);
}

}  // namespace hvdray
