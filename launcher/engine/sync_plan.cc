// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/sync_plan.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownWordBytes = 4096;

/// The part of `path` below `directory`; empty: the directory itself; nullopt: not in it.
std::optional<std::string> Below(const std::string& path, const std::string& directory) {
  if (directory.empty() || !path.starts_with(directory)) return std::nullopt;
  if (path.size() == directory.size()) return std::string();
  if (directory.ends_with('/')) return path.substr(directory.size());
  if (path[directory.size()] != '/') return std::nullopt;
  return path.substr(directory.size() + 1);
}

Result<SyncedDirectory> PlanDirectory(const SyncWord& word, const std::string& home,
                                      SyncScope scope, const DirectoryRules& rules) {
  std::error_code error;
  const fs::path real = fs::canonical(word.directory, error);
  const std::string shown = ShownText(word.directory, kShownWordBytes);
  if (error) {
    return ErrnoStatus(shown, error.value())
        .WithCode(ErrorCode::kUsage)
        .WithHint("name a directory of this machine: --sync DIR or --sync DIR:TARGET");
  }
  if (!fs::is_directory(real, error)) {
    return Status(ErrorCode::kUsage, fmt::format("{} is not a directory", shown));
  }
  SyncedDirectory synced;
  synced.directory = real.string();
  synced.target = word.has_target ? word.target : DefaultTarget(synced.directory, home);
  if (synced.target == ".") synced.target.clear();
  if (scope == SyncScope::kList) {
    HVDRAY_ASSIGN_OR_RETURN(synced.listing, ListDirectory(synced.directory, rules));
  }
  return synced;
}

}  // namespace

std::string DefaultTarget(const std::string& directory, const std::string& home) {
  // '/' contains everything and is no real home directory.
  if (home == "/") return directory;
  return Below(directory, home).value_or(directory);
}

std::optional<SyncedPlace> PlaceIn(std::span<const SyncedDirectory> synced,
                                   const std::string& directory) {
  std::optional<SyncedPlace> place;
  for (size_t i = 0; i < synced.size(); ++i) {
    std::optional<std::string> path = Below(directory, synced[i].directory);
    if (!path || (place && path->size() >= place->path.size())) continue;
    place = SyncedPlace{i, std::move(*path)};
  }
  return place;
}

std::string ResolvedDirectory(const std::string& directory) {
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  return error ? directory : real.string();
}

Result<std::vector<SyncedDirectory>> PlanSync(std::span<const SyncWord> words,
                                              const Environment& environment, SyncScope scope,
                                              const DirectoryRules& rules) {
  const std::string named_home = environment.GetOr("HOME", "");
  const std::string home = named_home.starts_with('/') ? ResolvedDirectory(named_home) : "";
  std::vector<SyncedDirectory> all;
  for (const SyncWord& word : words) {
    Result<SyncedDirectory> directory = PlanDirectory(word, home, scope, rules);
    if (!directory.ok()) return std::move(directory).status().WithContext("--sync");
    all.push_back(std::move(directory).value());
  }
  return all;
}

}  // namespace hvdray
