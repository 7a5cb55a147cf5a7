// The shape of a cluster file as tables: which keys there are and of what type.
#ifndef HVDRAY_CLUSTER_CLUSTER_SCHEMA_H_
#define HVDRAY_CLUSTER_CLUSTER_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/yaml.h"

namespace hvdray {

/// Checks every key and type of the document, without rules that concern more than one value.
/// Appends to `warnings`. Errors: kSpecInvalid for the first fault in the file's order.
/// Source: ray.md 3.1 to 3.3.
Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings);

/// Entry of `key` in `map`; nullptr when absent.
const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLUSTER_SCHEMA_H_
