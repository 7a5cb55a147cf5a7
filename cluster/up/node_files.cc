// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_files.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/gitignore.h"
#include "base/rsync_filter.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/up/node_steps.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 16;

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
  const fs::path there(MountTarget(mount.remote, host_mounts));
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
  return SyncedDirectory{real.string(), MountTarget(mount.remote, host_mounts), std::move(listing)};
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
