// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/yaml.h"
#include "base/yaml_writer.h"

namespace {

/// Reads every node in every way; counts the nodes of the expanded tree.
size_t Walk(const hvdray::YamlNode& node, int depth) {
  if (depth > 64) std::abort();
  (void)node.AsInt("v", -5, 5).ok();
  (void)node.AsDouble("v").ok();
  (void)node.AsBool("v").ok();
  (void)node.AsStrings("v").ok();
  const hvdray::Result<std::string> text = node.AsString("v");
  if (!text.ok() && text.status().message().find('\n') != std::string::npos) std::abort();
  size_t count = 1;
  for (const hvdray::YamlNode& item : node.items()) count += Walk(item, depth + 1);
  for (const hvdray::YamlNode::Entry& entry : node.entries()) {
    if (node.Find(entry.key) != &entry.value) std::abort();
    count += Walk(entry.value, depth + 1);
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The look-up of each key is quadratic; what takes long in larger inputs is only that.
  if (size > 64 * 1024) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const hvdray::Result<hvdray::YamlNode> node = hvdray::ParseYaml(text, "f.yaml");
  if (node.ok()) {
    const size_t count = Walk(*node, 1);
    if (count > 250'000) std::abort();
    // Written and read again it is the same text; larger than that, aliases blow it up.
    const std::string written = count > 50'000 ? "" : hvdray::YamlText(*node);
    if (written.size() < 64 * 1024) {
      const auto again = hvdray::ParseYaml(written, "again.yaml");
      if (!again.ok() || (!written.empty() && hvdray::YamlText(*again) != written)) std::abort();
    }
  } else if (node.status().code() != hvdray::ErrorCode::kSpecInvalid) {
    std::abort();
  }
  return 0;
}
