// SPDX-License-Identifier: Apache-2.0
// `hvdray exec FILE COMMAND` and `hvdray attach FILE`: the system's ssh in our place.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cluster/access/actions.h"
#include "cluster/access/cluster_access.h"
#include "cluster/access/cluster_life.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

/// The words after FILE as shell text. One word is shell text already, as for Ray.
std::string ToText(const CommandRequest& request) {
  const std::vector<std::string> words(request.arguments.begin() + 1, request.arguments.end());
  return words.size() == 1 ? words.front() : QuotedWords(words);
}

Result<ClusterNode> NodeOf(ClusterAccess& access, const CommandRequest& request) {
  const RawOption* address = request.said.Find(OptionId::kNodeIp);
  if (address != nullptr && address->last().empty()) {  // an unset variable is not the head
    return Status(ErrorCode::kUsage, fmt::format("{} must not be empty", address->label));
  }
  HVDRAY_RETURN_IF_ERROR(FindNodes(access));
  return ResolveNode(access, address == nullptr ? std::string() : address->last());
}

}  // namespace

Result<int> ExecOnCluster(ClusterAccess& access, const CommandRequest& request) {
  if (request.arguments.size() < 2) {
    return Status(ErrorCode::kUsage, "no command given",
                  fmt::format("hvdray exec {} 'ray status'", access.words));
  }
  return RunWithCluster(access, request, [&]() -> Result<int> {
    HVDRAY_ASSIGN_OR_RETURN(const ClusterNode node, NodeOf(access, request));
    return RunText(access, request, node, ToText(request));
  });
}

Result<int> AttachToCluster(ClusterAccess& access, const CommandRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(const TerminalKeeper keeper, KeeperOf(request));
  if (request.Has(OptionId::kNewWindow) && keeper == TerminalKeeper::kNone) {
    return Status(ErrorCode::kUsage, "--new needs --tmux or --screen");
  }
  if (!IsAtTerminal()) {
    return Status(ErrorCode::kUsage, "attach needs a terminal as stdin and stdout",
                  fmt::format("hvdray exec {} COMMAND runs without one", access.words));
  }
  const std::string& cluster = access.file.cluster_name;
  RemoteCommand shell = {.text = TextForRay(cluster, "exec bash -i"), .has_terminal = true};
  HVDRAY_RETURN_IF_ERROR(SetContainer(access, request, &shell));
  if (keeper != TerminalKeeper::kNone) {
    shell.text = TextForRay(cluster, AttachText(keeper, request.Has(OptionId::kNewWindow)));
  }
  return RunWithCluster(access, request, [&]() -> Result<int> {
    HVDRAY_ASSIGN_OR_RETURN(const ClusterNode node, NodeOf(access, request));
    return RunOnHost(access, node, shell, Ports(request));
  });
}

}  // namespace hvdray
