// The one door to pugixml: builds documents, does not read them.
#ifndef HVDRAY_BASE_XML_H_
#define HVDRAY_BASE_XML_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pugi {
struct xml_node_struct;
}

namespace hvdray {

/// An element of an XmlDocument; a handle, cheap to copy, good for as long as the document lives.
/// `name`s are our own constants: one that is not an XML name ends the process. Values and text may
/// be any bytes: those that XML 1.0 has no place for become U+FFFD, each one by itself.
class XmlElement {
 public:
  /// Appends an element and returns it.
  XmlElement Child(std::string_view name);
  /// Sets an attribute, in the order of the first calls. Returns this element.
  XmlElement& Attribute(std::string_view name, std::string_view value);
  XmlElement& Attribute(std::string_view name, int64_t value);
  /// Appends text. Returns this element.
  XmlElement& Text(std::string_view text);

 private:
  friend class XmlDocument;
  explicit XmlElement(pugi::xml_node_struct* node) : node_(node) {}
  pugi::xml_node_struct* node_;
};

/// Move-only.
class XmlDocument {
 public:
  XmlDocument();
  XmlDocument(XmlDocument&&) noexcept;
  XmlDocument& operator=(XmlDocument&&) noexcept;
  ~XmlDocument();
  /// The one top element. Call once.
  XmlElement Root(std::string_view name);
  /// UTF-8 with an XML declaration, two spaces a level. A reader gets back each attribute and text
  /// as given here, but CR in text: XML makes that LF.
  std::string ToString() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_XML_H_
