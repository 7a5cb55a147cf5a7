// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/gitignore.h"
#include "base/rsync_filter.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/up/bootstrap_config.h"
#include "cluster/up/start_line.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownCommand = 60;
constexpr size_t kReadBytes = size_t{1} << 16;

/// Adds a part after its length, so that different lists never hash alike.
void AddPart(Sha256Sum& sum, std::string_view part) {
  sum.Add(fmt::format("{}:", part.size()));
  sum.Add(part);
}

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

/// The place on the node as a copy's target: absolute, or relative to the home directory. With a
/// container, that place below `host_mounts`.
std::string TargetOf(std::string_view remote, std::string_view host_mounts) {
  while (remote.size() > 1 && remote.ends_with('/')) remote.remove_suffix(1);
  const bool is_absolute = remote.starts_with('/');
  if (remote == "~") remote = {};
  if (remote.starts_with("~/")) remote.remove_prefix(2);
  if (host_mounts.empty()) return std::string(remote);
  return is_absolute      ? fmt::format("{}/root{}", host_mounts, remote)
         : remote.empty() ? fmt::format("{}/home", host_mounts)
                          : fmt::format("{}/home/{}", host_mounts, remote);
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
    words.push_back(TargetOf(mount.remote, host_mounts));
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

/// Copies `file` to `directory` under `name`, from where it can be sent.
Status CopyUnder(const fs::path& file, const fs::path& directory, const std::string& name) {
  std::error_code error;
  fs::create_directories(directory, error);
  // The file may be secret.
  if (!error) fs::permissions(directory, fs::perms::owner_all, error);
  if (error) return ErrnoStatus(directory.string(), error.value());
  fs::copy_file(file, directory / name, fs::copy_options::overwrite_existing, error);
  // Same time, same size: the copy is not sent again each time.
  if (!error) fs::last_write_time(directory / name, fs::last_write_time(file, error), error);
  if (!error) return {};
  return ErrnoStatus(fmt::format("copy {} to {}", file.string(), directory.string()), error.value())
      .WithCode(ErrorCode::kFileUnwritable);
}

/// A file goes into the directory that `mount.remote` is, or says to be by its '/' at the end.
Result<SyncedDirectory> PlanFile(const ClusterFileMount& mount, const ClusterNodeSetup& setup,
                                 const fs::path& file, const fs::path& renamed,
                                 std::string_view host_mounts) {
  // Of a link, too.
  const std::string own_name = fs::path(mount.local).filename().string();
  const fs::path there(TargetOf(mount.remote, host_mounts));
  const bool is_into = mount.remote.ends_with('/') || mount.remote == "~" || !there.has_filename();
  const std::string name = is_into ? own_name : there.filename().string();
  SyncedDirectory planned{
      file.parent_path().string(), (is_into ? there : there.parent_path()).string(), {}};
  const RsyncFilter excludes{std::span(setup.rsync_exclude)};
  if (excludes.Match(own_name, /*is_directory=*/false) == IgnoreVerdict::kIgnored) return planned;
  if (name != file.filename()) {
    HVDRAY_RETURN_IF_ERROR(CopyUnder(file, renamed, name));
    planned.directory = renamed.string();
  }
  DirectoryRules rules;
  rules.links = LinkRule::kFollow;
  rules.ignore_files.clear();
  rules.only = name;
  HVDRAY_ASSIGN_OR_RETURN(planned.listing, ListDirectory(planned.directory, rules));
  if (planned.listing.files != 1) {
    return Status(ErrorCode::kFileUnreadable, fmt::format("{}: not readable", file.string()));
  }
  if (!is_into && host_mounts.empty()) {
    wire::DirectoryEntry& entry = planned.listing.entries.front();
    entry.kind = wire::DirectoryEntryKind::kFileOrInto;
    entry.link = own_name;
  }
  return planned;
}

Result<SyncedDirectory> PlanMount(const ClusterFileMount& mount, const ClusterNodeSetup& setup,
                                  const std::string& home, const fs::path& renamed,
                                  std::string_view host_mounts) {
  std::error_code error;
  const fs::path real = fs::canonical(ExpandedHome(mount.local, home), error);
  if (error) return ErrnoStatus(mount.local, error.value()).WithCode(ErrorCode::kFileUnreadable);
  if (!fs::is_directory(real, error)) return PlanFile(mount, setup, real, renamed, host_mounts);
  DirectoryRules rules;
  rules.patterns = PatternRule::kRsync;
  rules.ignore_files = setup.rsync_filter;
  rules.excludes = setup.rsync_exclude;
  rules.way_out = "leave it out by rsync_exclude";
  HVDRAY_ASSIGN_OR_RETURN(DirectoryListing listing, ListDirectory(real.string(), rules));
  return SyncedDirectory{real.string(), TargetOf(mount.remote, host_mounts), std::move(listing)};
}

Status AddFile(Sha256Sum& sum, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256Sum content;
  std::array<char, kReadBytes> buffer{};
  while (file) {
    file.read(buffer.data(), buffer.size());
    content.Add(ByteView(buffer.data(), static_cast<size_t>(file.gcount())));
  }
  if (!file.eof()) return {ErrorCode::kFileUnreadable, fmt::format("{}: cannot be read", path)};
  sum.Add(content.Finish());
  return {};
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

std::string HostMounts(std::string_view cluster) {
  return fmt::format(".hvdray/clusters/{}/mounts", cluster);
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

Result<std::vector<SyncedDirectory>> PlanMounts(const ClusterNodeSetup& setup,
                                                const std::string& home, const std::string& renamed,
                                                std::string_view host_mounts) {
  std::vector<SyncedDirectory> all;
  all.reserve(setup.file_mounts.size());
  for (const ClusterFileMount& mount : setup.file_mounts) {
    const fs::path place = fs::path(renamed) / std::to_string(all.size());
    Result<SyncedDirectory> planned = PlanMount(mount, setup, home, place, host_mounts);
    if (!planned.ok()) {
      return std::move(planned).status().WithContext(
          fmt::format("file_mounts: {}", ShownText(mount.remote)));
    }
    all.push_back(std::move(planned).value());
  }
  return all;
}

Result<SyncedDirectory> PlanDirectory(const std::string& directory, const std::string& target) {
  DirectoryRules rules;
  rules.ignore_files.clear();
  HVDRAY_ASSIGN_OR_RETURN(DirectoryListing listing, ListDirectory(directory, rules));
  return SyncedDirectory{directory, target, std::move(listing)};
}

Result<std::string> HashFiles(std::span<const SyncedDirectory> directories) {
  Sha256Sum sum;
  for (const SyncedDirectory& directory : directories) {
    AddPart(sum, directory.target);
    AddPart(sum, std::to_string(directory.listing.entries.size()));
    for (const wire::DirectoryEntry& entry : directory.listing.entries) {
      const bool is_file = wire::HasContents(entry.kind);
      const auto kind = is_file ? wire::DirectoryEntryKind::kFile : entry.kind;
      AddPart(sum, entry.path);
      AddPart(sum, fmt::format("{} {:o}", static_cast<int>(kind), entry.mode));
      // Not the name of a kFileOrInto: records of older versions lack it.
      AddPart(sum, is_file ? std::string() : entry.link);
      if (!is_file) continue;
      HVDRAY_RETURN_IF_ERROR(AddFile(sum, fmt::format("{}/{}", directory.directory, entry.path)));
    }
  }
  return Hex(sum.Finish());
}

}  // namespace hvdray
