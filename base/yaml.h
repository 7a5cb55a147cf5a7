// SPDX-License-Identifier: Apache-2.0
// The adapter of yaml-cpp: a checked, read-only tree in which every value knows its place.
#ifndef HVDRAY_BASE_YAML_H_
#define HVDRAY_BASE_YAML_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/yaml_scalar.h"

namespace hvdray {

/// Largest file. hvdray's are far smaller, and the library takes up to 240 times the memory.
inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;

/// A node of a parsed document. Value type, cheap to copy: copies share the tree, which lives as
/// long as any of its nodes. Threads: any.
class YamlNode {
 public:
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };

  struct Entry;
  Kind kind() const;
  bool IsNull() const { return kind() == Kind::kNull; }
  /// "job.yaml:7:3" (line and column from 1).
  std::string Where() const;
  /// A scalar's text as the file has it; empty for other kinds.
  const std::string& text() const;
  /// The scalar was quoted: it is text, whatever it looks like.
  bool is_quoted() const;
  const std::vector<YamlNode>& items() const;        ///< Empty unless a sequence.
  const std::vector<Entry>& entries() const;         ///< Empty unless a map; in the file's order.
  const YamlNode* Find(std::string_view key) const;  ///< nullptr: absent, or this is not a map.

  // Typed reads. `name`: what the message calls the value.
  // Errors: kSpecInvalid, "job.yaml:7:3: np is a string, not an integer".

  /// An unquoted number from `min` to `max`: decimal, 0x8C, 0b11 or 1_000. Not what readers take
  /// differently: leading zeros, base 60.
  Result<int64_t> AsInt(std::string_view name, int64_t min, int64_t max) const;
  /// An unquoted, finite number: also 1e3.
  Result<double> AsDouble(std::string_view name) const;
  /// An unquoted true, false, yes, no, on or off.
  Result<bool> AsBool(std::string_view name) const;
  /// Any scalar as the file has it, without NUL bytes.
  Result<std::string> AsString(std::string_view name) const;
  /// A sequence of such scalars.
  Result<std::vector<std::string>> AsStrings(std::string_view name) const;

  /// What to write instead of the null that a `~` has become; empty for other nodes.
  std::string TildeHint() const;

  /// kSpecInvalid at this node's place: "job.yaml:7:3: <what>".
  Status Error(std::string_view what, std::string hint = {}) const;

  // New nodes, to rewrite a document. They have the place of `at`.

  /// `is_quoted`: the text is a string, whatever it looks like.
  static YamlNode Scalar(std::string text, bool is_quoted, const YamlNode& at);
  static YamlNode Sequence(std::vector<YamlNode> items, const YamlNode& at);
  /// Keys must be distinct.
  static YamlNode Map(std::vector<Entry> entries, const YamlNode& at);

  struct Data;
  /// For the parser only.
  explicit YamlNode(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

/// What a scalar of a file is to PyYAML, as TypePlainScalar(); one in quotes is text. None for
/// other nodes.
PythonValue TypeScalar(const YamlNode& node);

/// Errors: kSpecInvalid with the place of the first integer in it beyond 64 bits: readers of the
/// JSON that it becomes would round it.
Status CheckIntegers(const YamlNode& node);

struct YamlNode::Entry {
  std::string key;
  std::string where;  ///< Of the key, as YamlNode::Where().
  YamlNode value;
};

/// Parses one UTF-8 document of at most kMaxYamlBytes; an empty one gives a null node. Anchors,
/// aliases and merge keys (<<) work; with them expanded, the tree has at most 250,000 values.
/// Columns count bytes. `file_name` only appears in messages. Pure. Threads: any.
/// `warnings`: of duplicate keys the last value counts, as with PyYAML, and a line says so; another
/// line tells each key on which merged mappings disagree: the first of a list counts, as YAML has
/// it, and the last of several `<<`; another each anchor that is defined again: for the aliases
/// below, the last counts.
/// Errors: kSpecInvalid with file:line:column for bad syntax, a key that is not a scalar or lacks
/// its colon, duplicate keys without `warnings` (naming both places), a second document, more than
/// 64 levels, control characters and line breaks of YAML 1.1 alone, tags that do not fit.
Result<YamlNode> ParseYaml(std::string_view text, std::string file_name,
                           std::vector<std::string>* warnings = nullptr);

}  // namespace hvdray

#endif  // HVDRAY_BASE_YAML_H_
