// What is wrong with the hosts of a job, and what to do about it. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/check_facts.h"

namespace hvdray {

enum class FindingLevel : uint8_t {
  kError,    ///< A job would not start.
  kWarning,  ///< It would, but.
};

/// What a finding is about; stable, for programs.
inline constexpr std::array<std::string_view, 20> kFindingKinds = {
    "slots", "host",    "silent",    "interface", "network",    "working_folder", "command",
    "files", "imports", "host_name", "clock",     "disk",       "shared_memory",  "limits",
    "cpus",  "memory",  "gpus",      "build",     "unanswered", "differences"};

struct Finding {
  FindingLevel level = FindingLevel::kError;
  std::string_view kind;            ///< One of kFindingKinds.
  ErrorCode code = ErrorCode::kOk;  ///< Of errors: what the job would end with.
  std::string text;                 ///< One line that names the hosts.
  std::string hint;                 ///< One line that says how to mend it.
  std::vector<std::string> hosts;   ///< Empty: it is no host's.
};

/// Errors first. What several hosts have alike is one finding.
std::vector<Finding> FindFindings(const CheckFacts& facts);

/// What `hvdray run` would return: 0 without an error, 2 when the request itself is wrong, 125 for
/// hosts and network, 126 and 127 for the command, 127 for its script too; 1 for a module.
int ExitCodeOf(std::span<const Finding> findings);

// Amounts as text and JSON show them: "12.5 GiB", "none" for a limit that is none.
std::string ShowBytes(uint64_t bytes);
/// "torch 2.1.0, horovod.torch": those that were imported.
std::string ShowModules(const wire::Inspection& inspection);
/// "8 x NVIDIA H100 80GB HBM3", "no GPU".
std::string ShowGpus(const wire::Inspection& inspection);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_
