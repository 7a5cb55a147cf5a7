// SPDX-License-Identifier: Apache-2.0
// The one door to yaml-cpp: a checked, read-only tree in which every value knows its place.
#ifndef HVDRAY_BASE_YAML_H_
#define HVDRAY_BASE_YAML_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// Of one file. Files of hvdray are far smaller; the library needs up to 240 times as much memory.
inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;

/// A node of a parsed document. Value type, cheap to copy (shares the tree).
class YamlNode {
 public:
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };

  struct Entry;
  Kind kind() const;
  bool IsNull() const { return kind() == Kind::kNull; }
  /// "job.yaml:7:3" (line and column from 1).
  std::string Where() const;
  /// Text of a scalar as it stands in the file; empty for others.
  const std::string& text() const;
  /// The scalar was quoted: it is text whatever it looks like.
  bool is_quoted() const;
  const std::vector<YamlNode>& items() const;        ///< Empty unless a sequence.
  const std::vector<Entry>& entries() const;         ///< Empty unless a map; in the file's order.
  const YamlNode* Find(std::string_view key) const;  ///< nullptr when absent or not a map.

  // Typed reads. Errors: kSpecInvalid "job.yaml:7:3: np is a string, not an integer".
  // `name`: what to call the value in the message.
  Result<int64_t> AsInt(std::string_view name, int64_t min, int64_t max) const;
  Result<double> AsDouble(std::string_view name) const;
  Result<bool> AsBool(std::string_view name) const;           ///< true/false/yes/no/on/off
  Result<std::string> AsString(std::string_view name) const;  ///< any scalar as it stands; no NULs
  Result<std::vector<std::string>> AsStrings(std::string_view name) const;  ///< sequence of scalars

  /// kSpecInvalid at this node's place: "job.yaml:7:3: <what>".
  Status Error(std::string_view what, std::string hint = {}) const;

  struct Data;
  explicit YamlNode(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

struct YamlNode::Entry {
  std::string key;
  std::string where;  ///< Of the key.
  YamlNode value;
};

/// Parses one UTF-8 document of at most 1 MiB; an empty one is a null node. Anchors, aliases and
/// merge keys (<<) work; expanded, the tree has at most 250,000 values. Columns count bytes.
/// `file_name` is only for messages. Pure.
/// Errors: kSpecInvalid with file:line:column for bad syntax, a key that is not a scalar, duplicate
/// keys (both places named), a second document, depth over 64, control bytes, tags of other makes.
Result<YamlNode> ParseYaml(std::string_view text, std::string file_name);

/// Reads and parses. Errors: also kFileUnreadable.
Result<YamlNode> LoadYaml(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_YAML_H_
