// SPDX-License-Identifier: Apache-2.0
// What a YamlNode points to. Shared by the parser (yaml.cc) and the reads (yaml_node.cc) only.
#ifndef HVDRAY_BASE_YAML_DATA_H_
#define HVDRAY_BASE_YAML_DATA_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml.h"

namespace hvdray {

struct YamlNode::Data {
  Kind kind = Kind::kNull;
  bool is_quoted = false;
  int line = 1;    ///< From 1.
  int column = 1;  ///< From 1, in bytes.
  int height = 1;  ///< Levels from here down; a scalar has 1.
  size_t weight =
      1;  ///< What the expanded subtree costs: nodes, and one more per 64 bytes of text.
  std::shared_ptr<const std::string> file;
  std::string text;
  std::vector<YamlNode> items;
  std::vector<Entry> entries;
};

/// The text with one '\n' a line break and no byte-order mark. Refuses what YAML does not allow in
/// a stream: the library would stop reading at the first 0x04 and takes NULs as text.
Result<std::string> CleanYamlText(std::string_view text, const std::string& file);

/// "job.yaml:7:3".
std::string YamlPlace(const std::string& file, int line, int column);

}  // namespace hvdray

#endif  // HVDRAY_BASE_YAML_DATA_H_
