// SPDX-License-Identifier: Apache-2.0
// Every key of a cluster file, once: the checks and the JSON Schema, which people and editors
// read, come from this table. Pure.
#ifndef HVDRAY_CLUSTER_FILE_CLUSTER_SCHEMA_H_
#define HVDRAY_CLUSTER_FILE_CLUSTER_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/status.h"
#include "base/yaml.h"

namespace hvdray {

/// Checks all keys and types of the document, but no rules that concern several values. Appends to
/// `warnings` a line for each key of older Ray versions and each that this provider doesn't use.
/// Errors: kSpecInvalid with file:line:column for the first fault in the file's order; for an
/// unknown key, with the nearest known one. Other providers than local and aws may have their own.
/// Source: Ray's cluster YAML schema (autoscaler/ray-schema.json).
Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings);

/// An integer, which may be written as 4.0: to Ray's schema that is one, too. Errors: kSpecInvalid.
Result<int64_t> WholeOf(const YamlNode& node, std::string_view name, int64_t min, int64_t max);

/// A document that CheckClusterSchema() has accepted, with each value in the type of its
/// key, so that no reader takes it otherwise: text that could be a number, a date or a boolean is
/// in quotes, numbers are decimal. On aws that includes the text parameters in `node_config` and in
/// the rules of the security group.
YamlNode WithSchemaTypes(const YamlNode& root);

/// The names of provider.type.
std::vector<std::string_view> ClusterProviders();

/// Top-level keys in the order in which a cluster file is written.
std::vector<std::string_view> ClusterTopKeys();

/// A JSON Schema (draft-07) of cluster files. `run`: that of the section `hvdray: {run: …}`.
std::string ClusterJsonSchema(const Json& run);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_FILE_CLUSTER_SCHEMA_H_
