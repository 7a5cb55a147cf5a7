// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/log_options.h"

#include <algorithm>
#include <cctype>

#include "base/log.h"

namespace hvdray {

void SetUpLog(const JobSpec& spec) {
  LogLevel level = *spec.is_quiet ? LogLevel::kError : LogLevel::kWarning;
  if (const auto set = spec.tunables.find("HOROVOD_LOG_LEVEL"); set != spec.tunables.end()) {
    std::string name = *set->second;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (name == "TRACE" || name == "DEBUG") level = LogLevel::kDebug;
    if (name == "INFO") level = LogLevel::kInfo;
    if (name == "ERROR" || name == "FATAL") level = LogLevel::kError;
  }
  if (*spec.is_verbose) level = std::max(level, LogLevel::kInfo);
  SetLogLevel(level);
  SetLogJson(*spec.is_log_json);
}

void SetUpLogEarly(std::span<const std::string> args, const Environment& environment) {
  const auto end = std::find(args.begin(), args.end(), "--");
  const bool is_asked = std::find(args.begin(), end, "--log-json") != end;
  const std::string set = environment.GetOr("HVDRAY_LOG_JSON", "0");
  if (is_asked || set == "1" || set == "true") SetLogJson(true);
}

}  // namespace hvdray
