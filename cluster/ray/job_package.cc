// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/job_package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/zip.h"
#include "launcher/engine/directory_list.h"
#include "launcher/job/ray_job_file.h"
#include "wire/package_layout.h"

namespace hvdray {
namespace {

constexpr uint16_t kProgramMode = 0755;
constexpr uint16_t kTextMode = 0644;
constexpr uint16_t kSecretMode = 0600;
constexpr uint16_t kOwnerAll = 0700;
constexpr size_t kShownBytes = 300;
constexpr size_t kLargestNamed = 5;
// Deflate's best possible ratio; larger content is rejected unread.
constexpr uint64_t kBestRatio = 1032;
// Real data of this size never fits; do not make the user wait for the proof.
constexpr uint64_t kHopelessBytes = uint64_t{100} * kMaxRayPackageBytes;
static_assert(kHopelessBytes < kBestRatio * kMaxRayPackageBytes);

std::string SizeText(uint64_t bytes) {
  constexpr double kKib = 1 << 10;
  constexpr double kMib = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMib;
  if (mib < 1) return fmt::format("{:.0f} KiB", static_cast<double>(bytes) / kKib);
  return mib < 10 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.0f} MiB", mib);
}

/// Adds the file's bytes to `sum`; stores its size and time. Errors: kFileUnreadable.
Status ReadForName(PackageEntry& entry, Sha256Sum& sum) {
  const std::string shown = ShownText(entry.path, kShownBytes);
  const UniqueFd fd(::open(entry.path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(shown, errno).WithCode(ErrorCode::kFileUnreadable);
  }
  entry.mtime_s = info.st_mtim.tv_sec;
  entry.mtime_ns = static_cast<uint32_t>(info.st_mtim.tv_nsec);
  std::string buffer(size_t{1} << 20, '\0');
  entry.size = 0;
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(shown, errno).WithCode(ErrorCode::kFileUnreadable);
    if (got == 0) return {};
    sum.Add(std::string_view(buffer.data(), static_cast<size_t>(got)));
    entry.size += static_cast<uint64_t>(got);
  }
}

/// Adds a part after its length, so that different lists never hash alike.
void AddPart(Sha256Sum& sum, std::string_view part) {
  sum.Add(fmt::format("{}:", part.size()));
  sum.Add(part);
}

Result<std::string> Name(std::vector<PackageEntry>& entries, std::string_view kind) {
  Sha256Sum all;
  all.Add("hvdray package 1\n");
  for (PackageEntry& entry : entries) {
    Sha256Sum content;
    if (!entry.path.empty() && !entry.is_directory) {
      HVDRAY_RETURN_IF_ERROR(ReadForName(entry, content));
    } else {
      content.Add(entry.bytes);
    }
    AddPart(all, entry.name);
    AddPart(all, fmt::format("{}{:o}", entry.is_directory ? 'd' : 'f', entry.mode));
    AddPart(all, content.Finish());
  }
  constexpr size_t kHashBytes = 8;
  return fmt::format("hvdray_{}{}.zip", kind,
                     Hex(std::string_view(all.Finish()).substr(0, kHashBytes)));
}

DirectoryRules RulesOf(const std::vector<std::string>& excludes) {
  DirectoryRules rules;
  rules.links = LinkRule::kFollow;
  rules.ignore_files = {".gitignore", ".rayignore"};
  rules.excludes = {".venv", "venv", "__pycache__"};
  rules.excludes.insert(rules.excludes.end(), excludes.begin(), excludes.end());
  rules.way_out = "leave it out: --exclude, or a line in .gitignore";
  return rules;
}

/// "data/a.bin 80 MiB, b 12 MiB": the largest of the user's files.
std::string LargestText(const PackagePlan& plan) {
  std::vector<const PackageEntry*> files;
  for (const PackageEntry& entry : plan.entries) {
    const bool is_ours = !entry.name.starts_with(plan.user_prefix);
    if (!entry.is_directory && !is_ours) files.push_back(&entry);
  }
  const size_t count = std::min(kLargestNamed, files.size());
  std::partial_sort(files.begin(), files.begin() + static_cast<ptrdiff_t>(count), files.end(),
                    [](const PackageEntry* a, const PackageEntry* b) {
                      return a->size != b->size ? a->size > b->size : a->name < b->name;
                    });
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ",
                        ShownText(files[i]->name.substr(plan.user_prefix.size()), kShownBytes),
                        SizeText(files[i]->size));
  }
  return text;
}

Status TooLarge(const PackagePlan& plan, size_t limit) {
  return {ErrorCode::kPackageTooLarge,
          fmt::format("{}: {} files of {} exceed Ray's limit of {} for a compressed package; the "
                      "largest: {}",
                      ShownText(plan.working_dir, kShownBytes), plan.user_files,
                      SizeText(plan.user_bytes), SizeText(limit), LargestText(plan)),
          "exclude what the nodes already have: --exclude PATTERN, or lines in .gitignore"};
}

/// Adds the directory's content below `name`.
Status AddDirectoryEntries(const std::string& directory, const std::vector<std::string>& excludes,
                           const std::string& name, PackagePlan& plan) {
  plan.working_dir = directory;
  plan.user_prefix = name + "/";
  HVDRAY_ASSIGN_OR_RETURN(const DirectoryListing listing,
                          ListDirectory(directory, RulesOf(excludes)));
  plan.user_files = listing.files;
  plan.user_bytes = listing.bytes;
  plan.entries.push_back({.name = name, .mode = kProgramMode, .is_directory = true});
  for (const wire::DirectoryEntry& found : listing.entries) {
    if (found.kind == wire::DirectoryEntryKind::kDirectoryMode) continue;
    PackageEntry entry;
    entry.name = plan.user_prefix + found.path;
    entry.is_directory = found.kind == wire::DirectoryEntryKind::kDirectory;
    entry.path = fmt::format("{}/{}", directory, found.path);
    // A read-only directory could neither be unpacked nor cleaned up.
    entry.mode = entry.is_directory ? found.mode | kOwnerAll : found.mode;
    entry.size = found.size;
    plan.entries.push_back(std::move(entry));
  }
  return listing.bytes > kHopelessBytes ? TooLarge(plan, kMaxRayPackageBytes) : Status();
}

Status CheckUnchanged(const PackageEntry& entry) {
  if (entry.path.empty() || entry.is_directory) return {};
  struct stat info {};
  if (::stat(entry.path.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == entry.size &&
      info.st_mtim.tv_sec == entry.mtime_s &&
      static_cast<uint32_t>(info.st_mtim.tv_nsec) == entry.mtime_ns) {
    return {};
  }
  return {ErrorCode::kFileUnreadable,
          fmt::format("{} changed while it was being packed", ShownText(entry.path, kShownBytes)),
          "retry once nothing writes to it, or exclude it: --exclude"};
}

}  // namespace

Result<PackagePlan> PlanPackage(const std::string& agent_path, const std::string& working_dir,
                                const std::vector<std::string>& excludes) {
  PackagePlan plan;
  plan.entries.push_back(
      {.name = kPackageOwnDirectory, .mode = kProgramMode, .is_directory = true});
  plan.entries.push_back({.name = fmt::format("{}/hvdray-agent", kPackageOwnDirectory),
                          .mode = kProgramMode,
                          .path = agent_path});
  plan.entries.push_back({.name = fmt::format("{}/ray_driver.py", kPackageOwnDirectory),
                          .mode = kTextMode,
                          .bytes = std::string(RayDriverText())});
  if (!working_dir.empty()) {
    HVDRAY_RETURN_IF_ERROR(
        AddDirectoryEntries(working_dir, excludes, kPackageFilesDirectory, plan));
  }
  HVDRAY_ASSIGN_OR_RETURN(plan.name, Name(plan.entries, ""));
  return plan;
}

Result<PackagePlan> PlanModulePackage(const std::string& path) {
  std::string directory = path;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  const std::string name = directory.substr(directory.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..") {
    return Status(ErrorCode::kUsage,
                  fmt::format("py_modules: {} has no name to import it by", path),
                  "name the package's directory itself: ../src/mypackage");
  }
  PackagePlan plan;
  HVDRAY_RETURN_IF_ERROR(AddDirectoryEntries(directory, {}, name, plan));
  HVDRAY_ASSIGN_OR_RETURN(plan.name, Name(plan.entries, "mod_"));
  return plan;
}

Result<std::string> BuildPackage(const PackagePlan& plan, size_t limit_bytes) {
  ZipWriter zip(limit_bytes);
  for (const PackageEntry& entry : plan.entries) {
    // The agent is packed every time, and the user waits for it.
    const ZipEffort effort =
        entry.mode == kProgramMode && entry.name.starts_with(kPackageOwnDirectory)
            ? ZipEffort::kFast
            : ZipEffort::kUsual;
    if (entry.is_directory) {
      HVDRAY_RETURN_IF_ERROR(zip.AddDirectory(entry.name, entry.mode));
    } else if (entry.path.empty()) {
      HVDRAY_RETURN_IF_ERROR(zip.AddBytes(entry.name, entry.mode, entry.bytes, effort));
    } else {
      HVDRAY_RETURN_IF_ERROR(zip.AddFile(entry.name, entry.mode, entry.path, effort));
    }
  }
  Result<std::string> bytes = zip.Finish();
  if (bytes.status().code() == ErrorCode::kPackageTooLarge) return TooLarge(plan, limit_bytes);
  // Takes precedence over libzip's error about a file that shrank: this one names it.
  for (const PackageEntry& entry : plan.entries) HVDRAY_RETURN_IF_ERROR(CheckUnchanged(entry));
  return bytes;
}

Result<std::string> BuildJobFilePackage(const std::string& job_json, const std::string& control) {
  ZipWriter zip(kMaxRayPackageBytes);
  HVDRAY_RETURN_IF_ERROR(zip.AddBytes("hvdray_job/job.json", kSecretMode, job_json));
  if (!control.empty()) {
    HVDRAY_RETURN_IF_ERROR(zip.AddBytes(fmt::format("hvdray_job/{}", kRayControlFileName),
                                        kSecretMode, control, ZipEffort::kFast));
  }
  Result<std::string> bytes = zip.Finish();
  if (bytes.status().code() != ErrorCode::kPackageTooLarge) return bytes;
  return Status(ErrorCode::kPackageTooLarge,
                fmt::format("the call and its objects, {}, exceed Ray's limit of {} for a "
                            "compressed package",
                            SizeText(control.size()), SizeText(kMaxRayPackageBytes)),
                "let the function read its data from where the nodes find it");
}

std::string JobFilePackageName(const std::string& job_id) {
  return fmt::format("hvdray_job_{}.zip", job_id);
}

std::string PresencePackageName(const std::string& job_id) {
  return fmt::format("hvdray_here_{}.zip", job_id);
}

std::string ForceStopPackageName(const std::string& job_id) {
  return fmt::format("hvdray_now_{}.zip", job_id);
}

}  // namespace hvdray
