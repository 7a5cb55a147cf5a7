// SPDX-License-Identifier: Apache-2.0
// A YAML tree as text again, for other programs and for people. Pure. Threads: any.
#ifndef HVDRAY_BASE_YAML_WRITER_H_
#define HVDRAY_BASE_YAML_WRITER_H_

#include <string>

#include "base/json.h"
#include "base/yaml.h"

namespace hvdray {

/// The tree in block style, two blanks a level, keys in their order, with a line break at the end.
/// ParseYaml() and readers of YAML 1.1, such as Python's, get the same values from it. Aliases and
/// merge keys are written out; comments and the source's style are lost. Keys become strings.
std::string YamlText(const YamlNode& root);

/// The same as JSON. Plain scalars become what they are to PyYAML (TypePlainScalar()); dates and
/// what is infinite stay text.
Json YamlJson(const YamlNode& node);

}  // namespace hvdray

#endif  // HVDRAY_BASE_YAML_WRITER_H_
