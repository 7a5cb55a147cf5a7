// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/progress.h"

#include <fmt/format.h>

#include "base/text.h"

namespace hvdray {
namespace {

bool IsSet(const Environment& environment, const std::string& name) {
  return !environment.GetOr(name, "").empty();
}

}  // namespace

bool IsContinuousIntegration(const Environment& environment) {
  const std::string value = environment.GetOr("CI", "");
  return !value.empty() && value != "false" && value != "0";
}

TerminalStyle ChooseStyle(bool is_terminal, ColorMode mode, bool is_quiet,
                          const Environment& environment) {
  const bool is_lively = is_terminal && environment.GetOr("TERM", "") != "dumb" &&
                         !IsContinuousIntegration(environment);
  TerminalStyle style;
  style.is_progress_shown = is_lively && !is_quiet;
  switch (mode) {
    case ColorMode::kAuto:
      style.is_colored = is_lively && !IsSet(environment, "NO_COLOR");
      break;
    case ColorMode::kAlways:
      style.is_colored = true;
      break;
    case ColorMode::kNever:
      break;
  }
  return style;
}

std::string ProgressText(const StartProgress& progress) {
  if (progress.workers_started >= progress.np) return {};
  const std::string what = fmt::format("starting {} on {}", Count(progress.np, "worker"),
                                       Count(progress.host_count, "host"));
  if (progress.hosts_ready < progress.host_count && progress.host_count > 1) {
    return fmt::format("{} … {}/{} hosts ready", what, progress.hosts_ready, progress.host_count);
  }
  return fmt::format("{} … {}/{}", what, progress.workers_started, progress.np);
}

}  // namespace hvdray
