#include "launcher/engine/sync_plan.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/shown_text.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownWordBytes = 4096;

/// The part of `path` below `folder`; empty: the directory itself; nullopt: not in it.
std::optional<std::string> Below(const std::string& path, const std::string& folder) {
  if (folder.empty() || !path.starts_with(folder)) return std::nullopt;
  if (path.size() == folder.size()) return std::string();
  if (folder.ends_with('/')) return path.substr(folder.size());
  if (path[folder.size()] != '/') return std::nullopt;
  return path.substr(folder.size() + 1);
}

Result<SyncedFolder> PlanFolder(const SyncWord& word, const std::string& home, SyncScope scope) {
  std::error_code error;
  const fs::path real = fs::canonical(word.folder, error);
  const std::string shown = ShownText(word.folder, kShownWordBytes);
  if (error) {
    return ErrnoStatus(shown, error.value())
        .WithCode(ErrorCode::kUsage)
        .WithHint("name a folder of this machine: --sync DIR or --sync DIR:TARGET");
  }
  if (!fs::is_directory(real, error)) {
    return Status(ErrorCode::kUsage, fmt::format("{} is no folder", shown));
  }
  SyncedFolder synced;
  synced.folder = real.string();
  synced.target = word.has_target ? word.target : DefaultTarget(synced.folder, home);
  if (synced.target == ".") synced.target.clear();
  if (scope == SyncScope::kList) {
    HVDRAY_ASSIGN_OR_RETURN(synced.listing, ListFolder(synced.folder));
  }
  return synced;
}

}  // namespace

std::string DefaultTarget(const std::string& folder, const std::string& home) {
  // '/' contains everything and is no real home directory.
  if (home == "/") return folder;
  return Below(folder, home).value_or(folder);
}

std::optional<SyncedPlace> PlaceIn(std::span<const SyncedFolder> synced,
                                   const std::string& folder) {
  std::optional<SyncedPlace> place;
  for (size_t i = 0; i < synced.size(); ++i) {
    std::optional<std::string> path = Below(folder, synced[i].folder);
    if (!path || (place && path->size() >= place->path.size())) continue;
    place = SyncedPlace{i, std::move(*path)};
  }
  return place;
}

std::string ResolvedFolder(const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return error ? folder : real.string();
}

Result<std::vector<SyncedFolder>> PlanSync(std::span<const SyncWord> words,
                                           const Environment& environment, SyncScope scope) {
  const std::string named_home = environment.GetOr("HOME", "");
  const std::string home = named_home.starts_with('/') ? ResolvedFolder(named_home) : "";
  std::vector<SyncedFolder> all;
  for (const SyncWord& word : words) {
    Result<SyncedFolder> folder = PlanFolder(word, home, scope);
    if (!folder.ok()) return std::move(folder).status().WithContext("--sync");
    all.push_back(std::move(folder).value());
  }
  return all;
}

}  // namespace hvdray
