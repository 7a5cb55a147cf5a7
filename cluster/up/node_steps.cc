// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "cluster/up/bootstrap_config.h"
#include "cluster/up/start_line.h"

namespace hvdray {
namespace {

constexpr size_t kShownCommand = 60;

std::string ChainedHash(std::string_view before, StepKind kind, std::string_view content) {
  Sha256Sum sum;
  AddPart(sum, before);
  AddPart(sum, Name(kind));
  AddPart(sum, content);
  return Hex(sum.Finish());
}

/// The user's commands without `ray stop`.
std::vector<std::string> RayKept(const std::vector<std::string>& commands) {
  std::vector<std::string> kept;
  for (const std::string& command : commands) {
    if (!IsRayStop(command)) kept.push_back(WithoutRayStop(command));
  }
  return kept;
}

void Append(std::vector<NodeStep>& steps, StepKind kind, const std::vector<std::string>& commands,
            std::string_view besides) {
  const std::string start;
  int number = 0;
  for (const std::string& command : commands) {
    const std::string& before = steps.empty() ? start : steps.back().hash;
    std::string hash = ChainedHash(before, kind, fmt::format("{}\n{}", besides, command));
    NodeStep& step = steps.emplace_back();
    step.kind = kind;
    step.command = command;
    step.hash = std::move(hash);
    step.number = ++number;
    step.count = static_cast<int>(commands.size());
  }
}

std::string MountsText(const ClusterNodeSetup& setup) {
  if (setup.file_mounts.size() == 1) {
    return fmt::format("{} to {}", setup.file_mounts[0].local, setup.file_mounts[0].remote);
  }
  return Count(setup.file_mounts.size(), "mount");
}

/// The place in the container: absolute or with "~".
std::string ContainerTarget(std::string_view remote) {
  while (remote.size() > 1 && remote.ends_with('/')) remote.remove_suffix(1);
  const bool is_whole = remote.starts_with('/') || remote == "~" || remote.starts_with("~/");
  return is_whole ? std::string(remote) : fmt::format("~/{}", remote);
}

void AppendContainer(std::vector<NodeStep>& steps, const ClusterNodeSetup& setup,
                     std::string_view host_mounts) {
  const ClusterContainer& container = *setup.container;
  std::vector<std::string> words = {container.is_pulled ? "always" : "missing",
                                    container.detects_runtime ? "detect" : "no",
                                    container.detects_shm_size ? "detect" : "no", container.image,
                                    fmt::format("{}", fmt::join(container.run_options, " "))};
  for (const ClusterFileMount& mount : setup.file_mounts) {
    words.push_back(MountTarget(mount.remote, host_mounts));
    words.push_back(ContainerTarget(mount.remote));
  }
  Sha256Sum sum;
  AddPart(sum, container.is_podman ? "podman" : "docker");
  AddPart(sum, container.name);
  for (const std::string& word : words) AddPart(sum, word);
  std::string config = Hex(sum.Finish());
  Append(steps, StepKind::kContainer, {fmt::format("{} from {}", container.name, container.image)},
         config);
  steps.back().config = std::move(config);
  steps.back().arguments = std::move(words);
}

}  // namespace

std::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kFiles:
      return "file mounts";
    case StepKind::kInitialization:
      return "initialization";
    case StepKind::kContainer:
      return "container";
    case StepKind::kSetup:
      return "setup";
    case StepKind::kBootstrap:
      return "autoscaler";
    case StepKind::kStart:
      return "start";
  }
  return "?";
}

std::string StepText(const NodeStep& step) {
  const std::string place = step.count < 2 ? "" : fmt::format(" {}/{}", step.number, step.count);
  return fmt::format("{}{}: {}", Name(step.kind), place, ShownText(step.command, kShownCommand));
}

void AddPart(Sha256Sum& sum, std::string_view part) {
  sum.Add(fmt::format("{}:", part.size()));
  sum.Add(part);
}

std::string HostMounts(std::string_view cluster) {
  return fmt::format(".hvdray/clusters/{}/mounts", cluster);
}

std::string MountTarget(std::string_view remote, std::string_view host_mounts) {
  while (remote.size() > 1 && remote.ends_with('/')) remote.remove_suffix(1);
  const bool is_absolute = remote.starts_with('/');
  if (remote == "~") remote = {};
  if (remote.starts_with("~/")) remote.remove_prefix(2);
  if (host_mounts.empty()) return std::string(remote);
  return is_absolute      ? fmt::format("{}/root{}", host_mounts, remote)
         : remote.empty() ? fmt::format("{}/home", host_mounts)
                          : fmt::format("{}/home/{}", host_mounts, remote);
}

std::vector<NodeStep> StepsOf(const ClusterNodeSetup& setup, const StepFacts& facts) {
  std::vector<NodeStep> steps;
  if (!setup.file_mounts.empty()) {
    Append(steps, StepKind::kFiles, {MountsText(setup)}, facts.files_hash);
  }
  Append(steps, StepKind::kInitialization, RayKept(setup.initialization_commands), "");
  if (setup.container) AppendContainer(steps, setup, facts.host_mounts);
  if (!facts.bootstrap_hash.empty()) {
    // Before the set-up, as with Ray: commands change the owner of these files, for example.
    Append(steps, StepKind::kBootstrap, {"its configuration and key"}, facts.bootstrap_hash);
    steps.back().arguments = {std::string(kBootstrapConfigName), std::string(kBootstrapKeyName)};
  }
  Append(steps, StepKind::kSetup, RayKept(setup.setup_commands), "");
  std::string besides = facts.head;
  for (const std::string& setting : facts.exports) besides += "\n" + setting;
  Append(steps, StepKind::kStart, RayKept(setup.start_commands), besides);
  return steps;
}

size_t CountDone(std::span<const NodeStep> steps, std::span<const std::string> record) {
  size_t done = 0;
  while (done < steps.size() && done < record.size() && steps[done].hash == record[done]) ++done;
  return done;
}

const NodeStep* FindContainer(std::span<const NodeStep> steps) {
  const auto found = std::find_if(steps.begin(), steps.end(), [](const NodeStep& step) {
    return step.kind == StepKind::kContainer;
  });
  return found == steps.end() ? nullptr : &*found;
}

size_t FirstStart(std::span<const NodeStep> steps) {
  const auto first = std::find_if(steps.begin(), steps.end(), [](const NodeStep& step) {
    return step.kind == StepKind::kStart;
  });
  return static_cast<size_t>(first - steps.begin());
}

}  // namespace hvdray
