// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/cluster_life.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/exec.h"
#include "base/log.h"
#include "cluster/transport/foreground_process.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

/// What both commands take as this one does.
constexpr std::array kPassedOn = {OptionId::kClusterName, OptionId::kSshIdentityFile,
                                  OptionId::kSshConfig, OptionId::kStrictHostKeyChecking};

Status CheckWords(const ClusterAccess& access, const CommandRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(const TerminalKeeper keeper, KeeperOf(request));
  if (request.Has(OptionId::kStop) && keeper != TerminalKeeper::kNone) {
    return {ErrorCode::kUsage,
            "--stop ends the cluster after this command, and --tmux and --screen return at once",
            "leave --stop out, and end the cluster with hvdray down"};
  }
  RemoteCommand ignored;
  HVDRAY_RETURN_IF_ERROR(SetContainer(access, request, &ignored));
  for (const std::string& port : Ports(request)) {
    Result<std::string> forward = LocalForward(port);
    if (!forward.ok()) return std::move(forward).status().WithContext("--port-forward");
  }
  return {};
}

/// The exit code of `hvdray up` or `hvdray down`.
Result<int> RunOurs(std::string_view command, const ClusterAccess& access,
                    const CommandRequest& request) {
  // Our stdout is the command's alone.
  std::vector<std::string> argv = {
      "/bin/sh", "-c", "exec \"$@\" >&2", "hvdray", OwnPath(), std::string(command), "--yes"};
  for (const OptionId id : kPassedOn) {
    const RawOption* said = request.said.Find(id);
    if (said == nullptr) continue;
    const std::string name = fmt::format("--{}", RowOf(id).name);
    argv.push_back(said->values.empty() ? name : fmt::format("{}={}", name, said->last()));
  }
  argv.push_back(access.path);
  HVDRAY_ASSIGN_OR_RETURN(const ProcessEnd end, RunInForeground(argv));
  return end.exit_code;
}

}  // namespace

Result<int> RunWithCluster(const ClusterAccess& access, const CommandRequest& request,
                           const std::function<Result<int>()>& body) {
  if (!request.Has(OptionId::kStart) && !request.Has(OptionId::kStop)) return body();
  HVDRAY_RETURN_IF_ERROR(CheckWords(access, request));
  Result<int> code = 0;
  if (request.Has(OptionId::kStart)) {
    code = RunOurs("up", access, request);
    if (!code.ok()) return code;
  }
  if (*code == 0) code = body();
  if (!request.Has(OptionId::kStop)) return code;
  // Before down's own words, which may be many.
  if (!code.ok()) code = Fail(access.command, code.status());
  const Result<int> down = RunOurs("down", access, request);
  if (down.ok() && *down == 0) return code;
  Tell(LogLevel::kError, fmt::format("hvdray {}", access.command),
       fmt::format("the cluster may still run: hvdray down {}", access.words));
  return *code != 0 ? code : down;
}

}  // namespace hvdray
