// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/ray_passthrough.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/environ.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "base/yaml_writer.h"
#include "cluster/file/cluster_form.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/remote_command.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

using Id = OptionId;

/// Options of Ray's commands; all take --cluster-name and -v.
struct RayRow {
  std::string_view command;
  std::vector<Id> options;
};

// Source: ray 2.60, scripts/scripts.py.
const std::vector<RayRow>& RayTable() {
  static const auto* const table = new std::vector<RayRow>{
      {"up",
       {Id::kYes, Id::kMinWorkers, Id::kMaxWorkers, Id::kNoRestart, Id::kRestartOnly,
        Id::kLoginShells, Id::kNoConfigCache}},
      {"down", {Id::kYes, Id::kWorkersOnly, Id::kKeepMinWorkers}},
      {"monitor", {}},
      {"attach",
       {Id::kStart, Id::kScreen, Id::kTmux, Id::kNewWindow, Id::kPortForward, Id::kNodeIp,
        Id::kNoConfigCache}},
      {"exec",
       {Id::kRunEnv, Id::kStop, Id::kStart, Id::kScreen, Id::kTmux, Id::kPortForward,
        Id::kNoConfigCache}},
      {"submit",
       {Id::kStop, Id::kStart, Id::kScreen, Id::kTmux, Id::kPortForward, Id::kNoConfigCache}},
      {"rsync-up", {Id::kAllNodes}},
      {"rsync-down", {}},
      {"get-head-ip", {}},
      {"get-worker-ips", {}},
      {"dashboard", {Id::kDashboardPort, Id::kRemotePort, Id::kNoConfigCache}},
  };
  return *table;
}

/// Ray's spelling, with the two dashes.
std::string RayName(Id id) {
  if (id == Id::kDashboardPort) return "--port";
  if (id == Id::kClusterVerbose || id == Id::kVerbose) return "-v";
  return fmt::format("--{}", RowOf(id).name);
}

Status AddOption(Id id, const RawOption& said, std::vector<std::string>* words) {
  if (RowOf(id).type != OptionType::kFlag) {
    for (const std::string& value : said.values) {
      words->push_back(RayName(id));
      words->push_back(value);
    }
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(const bool is_on, FlagOf(said));
  // One option of ours with three of Ray's spellings, whose meanings differ there.
  constexpr std::string_view kFlag = "flag ";
  const bool is_as_said = id == Id::kNoConfigCache && said.origin.starts_with(kFlag);
  if (is_on) words->push_back(is_as_said ? said.origin.substr(kFlag.size()) : RayName(id));
  if (!is_on && id == Id::kLoginShells) words->emplace_back("--use-normal-shells");
  return {};
}

std::string WhoOf(const ClusterSpec& file) {
  return file.is_local() ? "a coordinator" : "provider " + ShownText(file.provider_type);
}

bool IsOnPath(std::string_view program) {
  const std::string path = Environment::FromProcess().GetOr("PATH", "");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string directory = path.substr(begin, end - begin);
    const std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, program);
    if (::access(file.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

/// A file with `text` that only this user can read; removed with this object.
class PrivateFile {
 public:
  PrivateFile() = default;
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;
  ~PrivateFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Result<std::string> Write(const std::string& text) {
    const std::string directory = Environment::FromProcess().GetOr("TMPDIR", "/tmp");
    std::string name = directory + "/hvdray-for-ray-XXXXXX.yaml";
    const UniqueFd fd(::mkostemps(name.data(), /*suffixlen=*/5, O_CLOEXEC));
    if (!fd.is_valid()) {
      return ErrnoStatus("create a file", errno)
          .WithCode(ErrorCode::kFileUnwritable)
          .WithContext(directory);
    }
    path_ = name;
    HVDRAY_RETURN_IF_ERROR(WriteAll(fd.get(), text));
    return path_;
  }

 private:
  std::string path_;
};

Result<int> Pass(std::string_view command, const CommandRequest& request, const ClusterSpec& file) {
  const std::string& path = request.arguments.front();
  // First with the file's own name: what Ray lacks is an error even where there is no Ray.
  HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> words, RayWords(command, request, path));
  if (!IsOnPath("ray")) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: {} is left to Ray's own command, and there is no ray on PATH",
                              path, WhoOf(file)),
                  "pip install \"ray[default]\"");
  }
  PrivateFile copy;
  if (file.modern->Find("hvdray") != nullptr || file.is_translated) {
    HVDRAY_ASSIGN_OR_RETURN(const std::string stripped,
                            copy.Write(YamlText(RayCluster(*file.resolved))));
    HVDRAY_ASSIGN_OR_RETURN(words, RayWords(command, request, stripped));
  }
  Tell(LogLevel::kInfo, fmt::format("hvdray {}", command),
       fmt::format("{} is left to Ray: {}", WhoOf(file),
                   ShownLine(fmt::format("{}", fmt::join(words, " ")))));
  HVDRAY_ASSIGN_OR_RETURN(const ProcessEnd end, RunInForeground(words));
  return end.exit_code;
}

}  // namespace

bool IsLeftToRay(const ClusterSpec& file) {
  return file.is_local() ? file.head_ip.empty() : file.provider_type != "aws";
}

Result<std::vector<std::string>> RayWords(std::string_view command, const CommandRequest& request,
                                          const std::string& path) {
  const std::vector<RayRow>& table = RayTable();
  const auto row = std::ranges::find(table, command, &RayRow::command);
  if (row == table.end()) {
    return Status(ErrorCode::kNotSupported, fmt::format("ray has no command {}", command));
  }
  std::vector<std::string> words = {"ray", std::string(command)};
  for (const auto& [id, said] : request.said.layers().front().options) {
    const bool is_rays = id == Id::kClusterName || id == Id::kClusterVerbose ||
                         id == Id::kVerbose ||
                         std::ranges::find(row->options, id) != row->options.end();
    if (!is_rays) {
      return Status(ErrorCode::kUsage,
                    fmt::format("{}: ray {} has no such option", said.label, command),
                    fmt::format("{} is left to Ray: leave the option out", path));
    }
    HVDRAY_RETURN_IF_ERROR(AddOption(id, said, &words));
  }
  const std::vector<std::string>& arguments = request.arguments;
  words.push_back(path);
  if (command == "exec" && arguments.size() > 1) {
    // Ray takes shell text.
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    words.push_back(rest.size() == 1 ? rest.front() : QuotedWords(rest));
  } else if (command == "submit" && arguments.size() > 1) {
    words.push_back(arguments[1]);
    if (arguments.size() > 2) words.emplace_back("--");
    // Ray makes one shell command of them and quotes nothing.
    for (size_t i = 2; i < arguments.size(); ++i)
      words.push_back(QuotedWords(std::span(&arguments[i], 1)));
  } else {
    words.insert(words.end(), arguments.begin() + 1, arguments.end());
  }
  return words;
}

std::optional<int> PassToRay(std::string_view command, const CommandRequest& request,
                             const ClusterSpec& file) {
  if (!IsLeftToRay(file)) return std::nullopt;
  const Result<int> code = Pass(command, request, file);
  return code.ok() ? *code : Fail(command, code.status());
}

}  // namespace hvdray
