// SPDX-License-Identifier: Apache-2.0
// What AWS's query API is sent: the fields of a form, made from the node_config of a cluster file.
// Also the launch hash of a node, as Ray writes it. Pure.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_QUERY_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_QUERY_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/yaml.h"

namespace hvdray {

/// The fields of a request, in the order in which they are sent.
using AwsForm = std::vector<std::pair<std::string, std::string>>;

/// application/x-www-form-urlencoded, a blank as %20. Source: RFC 3986, unreserved characters.
std::string EncodeAwsForm(const AwsForm& form);

/// Appends NAME.1, NAME.2, … for `values`.
void AddAwsList(AwsForm& form, std::string_view name, const std::vector<std::string>& values);

/// Appends Filter.N.Name and Filter.N.Value.1…, with the next N.
void AddAwsFilter(AwsForm& form, std::string_view name, const std::vector<std::string>& values);

/// Refuses a key of `node_config` that RunInstances does not know but that resembles one it does;
/// a key like none passes, since AWS adds new ones.
/// Errors: kSpecInvalid with file:line:column.
Status CheckAwsNodeConfig(const std::vector<YamlNode::Entry>& node_config);

/// Appends an object whose keys are those of AWS's SDKs (as in RunInstances and
/// AuthorizeSecurityGroupIngress) under the names of the query API: lists numbered from 1 and
/// named in the singular, where AWS does so. UserData at the top is sent in base64. Nulls and
/// empty lists are left out. Source: EC2's API reference, RunInstances; botocore's ec2 model.
void AddAwsObject(AwsForm& form, const Json& object);

/// A value as Python's json.dumps(value, sort_keys=True) writes it.
std::string PythonJson(const Json& value);

/// The value of the tag ray-launch-config: SHA-256 over the JSON of [node_config, auth], in
/// lower-case base32hex. `auth`: the section of the file, with the contents of key files instead
/// of their paths. Ray launches a new head when this differs.
std::string RayLaunchHash(const Json& node_config, const Json& auth);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_QUERY_H_
