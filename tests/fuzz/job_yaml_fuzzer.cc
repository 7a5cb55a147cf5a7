// SPDX-License-Identifier: Apache-2.0
// Any text as job file, as Horovod's config file and as user file: a spec, or one line of error
// that names the file.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/job/options_resolver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdray;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::vector<std::string>> lines = {
      {"-f", "file.yaml"}, {"-np", "2", "--config-file", "file.yaml", "./t"}, {"-np", "2", "./t"}};
  for (size_t i = 0; i < lines.size(); ++i) {
    Environment environment;
    if (i == 2) environment.Set("XDG_CONFIG_HOME", "/u");
    const ResolverFiles files = {
        [&text](const std::string& path) -> Result<std::optional<std::string>> {
          if (path == "file.yaml" || path == "/u/hvdray/config.yaml") {
            return std::optional<std::string>(text);
          }
          return std::optional<std::string>();
        },
        [](const std::string&) { return false; }, nullptr};
    const Result<RunRequest> request = ResolveRun(lines[i], environment, files);
    if (request.ok()) continue;
    HVDRAY_CHECK(request.status().message().find('\n') == std::string::npos);
    HVDRAY_CHECK(request.status().code() != ErrorCode::kInternal);
  }
  return 0;
}
