// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cluster/transport/endpoint_address.h"

namespace hvdray {
namespace {

constexpr int kMaxLimitSeconds = 86'400;
constexpr int kMaxPid = 1 << 22;  // PID_MAX_LIMIT of Linux
constexpr size_t kMaxGpuName = 128;

Status Usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

Status TakeNumber(std::string_view text, int lowest, int highest, int& number) {
  const std::optional<int> parsed = ParseInteger<int>(text);
  if (!parsed || *parsed < lowest || *parsed > highest) {
    return Usage(fmt::format("'{}' is not a number from {} to {}", text, lowest, highest));
  }
  number = *parsed;
  return {};
}

/// "0", "GPU-8932f937-d72c", "MIG-GPU-8932f937/1/0"
bool IsGpuName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxGpuName &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '/' || c == '_' || c == '.' || c == ':';
         });
}

Status TakeGpus(std::string_view text, std::vector<std::string>& gpus) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (!IsGpuName(item)) return Usage(fmt::format("'{}' is not a GPU name", item));
    gpus.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return {};
}

/// A row of the table: an option and how it is read.
struct Row {
  std::string_view name;
  bool has_value;
  bool is_for_dial;  ///< Unknown without --dial.
  Status (*take)(std::string_view value, AgentArguments& arguments);
};

constexpr Row kRows[] = {
    {"--folder", true, false,
     [](std::string_view value, AgentArguments& arguments) {
       arguments.directory = value;
       return Status();
     }},
    {"--probe-listener", false, false,
     [](std::string_view, AgentArguments& arguments) {
       arguments.has_probe_listener = arguments.dial.has_probe_listener = true;
       return Status();
     }},
    {"--keep-processes", false, false,
     [](std::string_view, AgentArguments& arguments) {
       arguments.keeps_processes = true;
       return Status();
     }},
    {"--dial", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       HVDRAY_ASSIGN_OR_RETURN(arguments.dial.addresses, ParseEndpointAddresses(value));
       return Status();
     }},
    {"--endpoint", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       return TakeNumber(value, 0, kMaxEndpoint, arguments.dial.endpoint);
     }},
    {"--gpus", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       return TakeGpus(value, arguments.dial.gpus);
     }},
    {"--python", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       arguments.dial.python = value;
       return Status();
     }},
    {"--raylet", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       return TakeNumber(value, 2, kMaxPid, arguments.dial.raylet);
     }},
    {"--keep-ray-env", false, true,
     [](std::string_view, AgentArguments& arguments) {
       arguments.dial.keeps_ray_environment = true;
       return Status();
     }},
    {"--dial-timeout", true, true,
     [](std::string_view value, AgentArguments& arguments) {
       int seconds = 0;
       HVDRAY_RETURN_IF_ERROR(TakeNumber(value, 1, kMaxLimitSeconds, seconds));
       arguments.dial.limit = std::chrono::seconds(seconds);
       return Status();
     }},
};

/// The task that `word` names by itself; kServe: none.
AgentTask TaskOf(std::string_view word) {
  if (word == "--help" || word == "-h") return AgentTask::kHelp;
  if (word == "--version") return AgentTask::kVersion;
  if (word == "--leave") return AgentTask::kLeave;
  return AgentTask::kServe;
}

}  // namespace

Result<AgentArguments> ParseAgentArguments(std::span<const std::string_view> words) {
  AgentArguments arguments;
  const bool dials = std::any_of(words.begin(), words.end(), [](std::string_view word) {
    return word.substr(0, word.find('=')) == "--dial";
  });
  if (dials) arguments.task = AgentTask::kDial;
  for (size_t i = 0; i < words.size(); ++i) {
    if (const AgentTask task = TaskOf(words[i]); task != AgentTask::kServe) {
      arguments.task = task;
      if (task == AgentTask::kLeave && i + 1 < words.size()) arguments.leave_in = words[i + 1];
      return arguments;
    }
    const size_t equals = words[i].find('=');
    const std::string_view name = words[i].substr(0, equals);
    const Row* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                        [&](const Row& r) { return r.name == name; });
    const bool is_bare_flag = row != std::end(kRows) && !row->has_value;
    if (row == std::end(kRows) || (row->is_for_dial && !dials) ||
        (is_bare_flag && equals != std::string_view::npos)) {
      return Usage(fmt::format("unknown argument '{}' (see --help)", words[i]));
    }
    std::string_view value;
    if (row->has_value && equals != std::string_view::npos) {
      value = words[i].substr(equals + 1);
    } else if (row->has_value) {
      if (i + 1 == words.size()) return Usage(fmt::format("{} needs a value", name));
      value = words[++i];
    }
    HVDRAY_RETURN_IF_ERROR(row->take(value, arguments).WithContext(name));
  }
  if (dials && (arguments.dial.addresses.empty() || arguments.dial.endpoint < 0)) {
    return Usage("--dial and --endpoint are both required");
  }
  return arguments;
}

}  // namespace hvdray
