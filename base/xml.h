// SPDX-License-Identifier: Apache-2.0
// The adapter of pugixml: reads documents of others into a plain tree, and writes such a tree.
// Pure. Threads: any.
#ifndef HVDRAY_BASE_XML_H_
#define HVDRAY_BASE_XML_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Largest document. Amazon's longest answer in use (a page of instance types) has 6 MB.
inline constexpr size_t kMaxXmlBytes = size_t{32} << 20;

/// An element with all that is below it. Comments are dropped.
struct XmlElement {
  std::string name;  ///< As written, a namespace prefix included.
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  ///< All character data directly in it, joined, without blanks at the ends.
  std::vector<XmlElement> children;

  /// The first element at `path` below this one ("instanceState/name"); nullptr: there is none.
  const XmlElement* Find(std::string_view path) const;
  /// Its text; empty if there is none.
  const std::string& TextAt(std::string_view path) const;
  /// The elements called "item" in the first element at `path`: how EC2 writes a list.
  std::vector<const XmlElement*> ItemsAt(std::string_view path,
                                         std::string_view item = "item") const;
};

/// The root element. No entity but XML's own five is expanded, and nothing outside is loaded.
/// Errors: kProtocolError for bad syntax (with the byte offset), a document type, more than
/// `limit_bytes`, 64 levels or 500,000 elements; the caller adds what was being read.
Result<XmlElement> ParseXml(ByteView text, size_t limit_bytes = kMaxXmlBytes);

/// A document with `root`, indented. Bytes that XML has no place for become U+FFFD, one by one.
std::string WriteXml(const XmlElement& root);

}  // namespace hvdray

#endif  // HVDRAY_BASE_XML_H_
