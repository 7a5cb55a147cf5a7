// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/tcp_address.h"
#include "base/text.h"
#include "cluster/transport/agent_bootstrap.h"
#include "cluster/transport/scripts.h"
#include "cluster/up/lease.h"

namespace hvdray {
namespace {

// $script: the text of this call, which runs it in the container or waits for a lease with it.
constexpr std::string_view kPrelude = R"sh(script=$1; shift; eval "$script")sh";

/// Calls `each(key, value)` for the lines of an answer.
template <typename Each>
void ForEachAnswer(std::string_view output, Each each) {
  for (std::string_view line : LinesOf(output)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with('@')) continue;
    line.remove_prefix(1);
    const size_t blank = std::min(line.find(' '), line.size());
    each(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
  }
}

/// "HOST PORT"
std::optional<RayDashboard> ParseDashboard(std::string_view text) {
  const size_t blank = std::min(text.find(' '), text.size());
  const std::optional<uint16_t> port = ParsePort(text.substr(std::min(blank + 1, text.size())));
  if (!port || blank == 0) return std::nullopt;
  return RayDashboard{std::string(text.substr(0, blank)), *port};
}

}  // namespace

std::vector<std::string> ScriptCommand(const ScriptPlace& place, std::string_view verb,
                                       const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"/bin/sh",
                                    "-c",
                                    std::string(kPrelude),
                                    "hvdray",
                                    fmt::format("{}\ndashboard_calls={}\n{}", ListeningPortScript(),
                                                ShellQuoted(DashboardCalls()), NodeScript()),
                                    place.cluster,
                                    place.node,
                                    place.head,
                                    place.shell == ShellKind::kLogin ? "login" : "plain",
                                    place.engine,
                                    place.container,
                                    std::string(verb)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

bool RayDashboard::IsOnLoopback() const { return host == "localhost" || IsLoopback(host); }

bool RayDashboard::IsEverywhere() const { return host == "0.0.0.0" || host == "::"; }

std::string RayDashboard::ReachedAt() const {
  if (host == "localhost" || host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;  // Python's servers at "::" take no IPv4
}

NodeSurvey ParseSurvey(std::string_view output) {
  NodeSurvey survey;
  ForEachAnswer(output, [&survey](std::string_view key, std::string_view value) {
    if (key == "step") survey.record.emplace_back(value);
    // Of the host and of the container.
    if (key == "processes") survey.processes += ParseInteger<int>(value).value_or(0);
    if (key == "containers") survey.containers = ParseInteger<int>(value).value_or(0);
    if (key == "container") survey.container = value;
    if (key == "gcs") survey.has_gcs = true;
    if (key == "node") survey.ray_node = value;
    if (key == "address") survey.address = value;
    if (key == "lease") survey.lease = ParseLeaseEnd(value).value_or(0);
    if (key == "watched") survey.is_lease_watched = true;
    if (key == "lease_ended") survey.has_lease_ended = true;
    if (key == "at_work") survey.at_work = value;
    if (key == "head") survey.joined_head = value;
    if (key == "no_dashboard") survey.has_no_dashboard = true;
    if (key == "dashboard") survey.dashboard = ParseDashboard(value);
    // "CLUSTER PORT"
    const std::optional<RayDashboard> other = ParseDashboard(value);
    if (key == "other" && other) survey.others.emplace(other->port, other->host);
    if (key == "member") survey.members.emplace_back(value);
  });
  return survey;
}

std::optional<RayVersions> ParseVersions(std::string_view output) {
  RayVersions versions;
  bool has_ray = false;
  ForEachAnswer(output, [&](std::string_view key, std::string_view value) {
    if (key == "ray") {
      versions.ray = value;
      has_ray = true;
    }
    if (key == "python") versions.python = value;
  });
  const bool is_whole = has_ray && (versions.ray.empty() || !versions.python.empty());
  return is_whole ? std::optional(std::move(versions)) : std::nullopt;
}

std::string ParseToken(std::string_view output) {
  std::string token;
  ForEachAnswer(output, [&token](std::string_view key, std::string_view value) {
    if (key == "token") token = value;
  });
  return token;
}

std::optional<StopCount> ParseStopped(std::string_view output) {
  std::optional<StopCount> count;
  ForEachAnswer(output, [&count](std::string_view key, std::string_view value) {
    const size_t blank = std::min(value.find(' '), value.size());
    const auto found = ParseInteger<int>(value.substr(0, blank));
    const auto left = ParseInteger<int>(value.substr(std::min(blank + 1, value.size())));
    if (key == "stopped" && found && left) count = StopCount{*found, *left};
  });
  return count;
}

DrainCount ParseDrained(std::string_view output) {
  DrainCount count;
  count.problem = "no answer";
  ForEachAnswer(output, [&count](std::string_view key, std::string_view value) {
    if (key == "problem") count.problem = value;
    const size_t blank = std::min(value.find(' '), value.size());
    const auto found = ParseInteger<int>(value.substr(0, blank));
    const auto left = ParseInteger<int>(value.substr(std::min(blank + 1, value.size())));
    if (key == "drained" && found && left) count = {*found, *left, ""};
  });
  return count;
}

JoinedNodes ParseJoinedNodes(std::string_view output) {
  JoinedNodes nodes;
  bool is_answered = false;
  ForEachAnswer(output, [&](std::string_view key, std::string_view value) {
    if (key == "dashboard") is_answered = true;
    if (key == "no_dashboard") nodes.is_without_dashboard = true;
    if (key == "problem") nodes.problem = value;
    if (key != "alive") return;
    const size_t blank = std::min(value.find(' '), value.size());
    nodes.alive.emplace(value.substr(0, blank), value.substr(std::min(blank + 1, value.size())));
  });
  if (nodes.is_without_dashboard) nodes.problem = "no dashboard runs on the head";
  if (!is_answered && nodes.problem.empty()) nodes.problem = "the dashboard gave no answer";
  return nodes;
}

bool IsPlainClusterName(std::string_view name) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 100 && std::isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace hvdray
