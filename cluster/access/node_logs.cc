// SPDX-License-Identifier: Apache-2.0
// `hvdray logs FILE NODE [LOG]`: what Ray logs on a machine of the cluster, through its dashboard.
// The log of a job: cluster/ray/job_logs.h.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "base/text.h"
#include "cluster/access/actions.h"
#include "cluster/access/cluster_access.h"
#include "cluster/cloud/cloud_hosts.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_members.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

/// The live node that `word` means; nullptr: none. Asks for members only where addresses do not do.
const RayNode* LiveNode(ClusterAccess& access, const std::vector<RayNode>& nodes,
                        const std::string& word) {
  for (const RayNode& node : nodes) {
    if (IsNodeId(word, node.id) || (node.is_head && word == "head")) return &node;
  }
  const auto is_there = [&word](const RayNode& node) { return node.ip == word; };
  const auto at = std::ranges::find_if(nodes, is_there);
  if (at != nodes.end() && std::ranges::count_if(nodes, is_there) == 1) return &*at;
  const Result<ClusterNode> machine = ResolveNode(access, word);
  if (!machine.ok()) return at == nodes.end() ? nullptr : &*at;
  std::vector<std::string> machines = {access.nodes.head.host.host};
  for (const ClusterNode& worker : access.nodes.workers) machines.push_back(worker.host.host);
  const auto place = std::ranges::find(machines, machine->host.host);
  return MatchRayNodes(machines, 0, FindMembers(access),
                       nodes)[static_cast<size_t>(place - machines.begin())];
}

Result<RayNode> NodeOf(DashboardClient& client, ClusterAccess& access, std::string word) {
  // Ray knows a cloud's machine by its internal address alone.
  const auto meant = std::ranges::find_if(
      access.nodes.cloud, [&word](const CloudNode& node) { return IsCalled(node, word); });
  if (meant != access.nodes.cloud.end()) word = meant->internal_address;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<RayNode> nodes, client.Nodes());
  if (const RayNode* node = LiveNode(access, nodes, word)) return *node;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<RayLostNode> lost, client.LostNodes());
  const auto died = std::ranges::find_if(lost, [&](const RayLostNode& node) {
    return node.ip == word ||
           std::ranges::any_of(FindMembers(access), [&](const RayMember& member) {
             return member.address == word && member.node_id == node.id;
           });
  });
  if (died != lost.end()) {
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("node {} is dead, and with it what serves its logs: {}",
                              ShownText(word), ShownText(died->why, 200)),
                  fmt::format("hvdray exec {} --node-ip {} 'ls /tmp/ray/session_latest/logs'",
                              access.words, ShownText(word)));
  }
  if (ResolveNode(access, word).ok()) {
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("node {} has not joined Ray", ShownText(word)),
                  fmt::format("hvdray up {} starts it", access.words));
  }
  return Status(ErrorCode::kUsage, fmt::format("{}: no node {}", access.path, ShownText(word)),
                fmt::format("hvdray status {} lists them", access.words));
}

/// Follows the file until a signal; 128 + signal.
Result<int> Follow(RayAccess ray, const std::string& node_id, const std::string& name) {
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  auto follower = std::make_shared<RayLogFollower>(
      std::move(ray), RayLogFollower::Options{.node_id = node_id, .file_name = name});
  std::optional<Result<int>> end;
  SignalHandlers handlers;
  handlers.on_stop = [&](int signo) {
    end = 128 + signo;
    follower->Cancel();
    loop->Stop();
  };
  const UserSignals signals(*loop, std::move(handlers));
  BlockingPool pool(*loop, /*max_threads=*/1);
  auto printed = std::make_shared<int>(0);  // set by the thread that follows, read after it
  pool.Run<Status>(
      [follower, printed] {
        return follower->Follow({.take = [printed](ByteView piece) {
          *printed = PrintOut("logs", std::string(piece));
          return *printed == 0;
        }});
      },
      [&](Status status) {
        if (!end && status.ok()) end = *printed;
        if (!end) end = std::move(status);
        loop->Stop();
      });
  loop->Run();
  return std::move(*end);
}

}  // namespace

Result<int> ShowNodeLogs(ClusterAccess& access, const CommandRequest& request) {
  const std::vector<std::string>& words = request.arguments;
  if (words.size() < 2) {
    return Status(ErrorCode::kUsage, "no node given",
                  fmt::format("hvdray logs {} head", access.words));
  }
  std::optional<int64_t> lines;
  if (const RawOption* said = request.said.Find(OptionId::kLines)) {
    HVDRAY_ASSIGN_OR_RETURN(lines, WholeOf(OptionId::kLines, *said));
  }
  HeadLink link;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess ray, FindRayOnHead(access, link));
  DashboardClient client(ray.Copy());
  HVDRAY_ASSIGN_OR_RETURN(const RayNode node, NodeOf(client, access, words[1]));
  if (words.size() == 2) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, client.LogNames(node.id));
    std::string text;
    for (const std::string& name : names) text += ShownLine(name) + "\n";
    return PrintOut("logs", text);
  }
  if (request.Has(OptionId::kFollow)) return Follow(std::move(ray), node.id, words[2]);
  int code = 0;
  Status read = client.ReadLog(
      node.id, words[2],
      [&code](ByteView piece) {
        code = PrintOut("logs", std::string(piece));
        return code == 0;
      },
      lines);
  if (read.ok()) return code;
  // Ray's answer does not tell a name that is wrong from what went wrong.
  const Result<std::vector<std::string>> names = client.LogNames(node.id);
  if (!names.ok() || std::ranges::find(*names, words[2]) != names->end()) return read;
  return Status(ErrorCode::kUsage,
                fmt::format("no log {} on node {}", ShownText(words[2]), ShownText(words[1])),
                fmt::format("hvdray logs {} {} lists them", access.words, ShownText(words[1])));
}

}  // namespace hvdray
