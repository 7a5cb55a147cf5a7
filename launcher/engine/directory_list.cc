// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/directory_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/fd.h"
#include "base/gitignore.h"
#include "base/rsync_filter.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr mode_t kModeBits = 0777;
constexpr mode_t kOwnerAll = 0700;
constexpr size_t kMaxIgnoreBytes = size_t{16} << 20;
constexpr size_t kShownBytes = 4096;  // paths are shown whole

std::string_view KindOf(mode_t mode) {
  if (S_ISSOCK(mode)) return "socket";
  if (S_ISFIFO(mode)) return "named pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "device";
  return "file of an unknown kind";
}

struct CloseDirectory {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// Counts paths of one kind; keeps the first.
struct Places {
  std::string first;
  size_t count = 0;

  void Add(std::string place) {
    if (count++ == 0) first = std::move(place);
  }
  std::string More() const { return count < 2 ? "" : fmt::format(" (and {} more)", count - 1); }
};

/// True if a link in `directory` (relative to the top) with target `text` leads out of the top.
bool LeadsOut(std::string_view directory, std::string_view text) {
  if (text.starts_with('/')) return true;
  auto depth = directory.empty() ? 0 : 1 + std::count(directory.begin(), directory.end(), '/');
  while (!text.empty()) {
    const size_t end = std::min(text.find('/'), text.size());
    const std::string_view part = text.substr(0, end);
    if (part == "..") {
      if (--depth < 0) return true;
    } else if (!part.empty() && part != ".") {
      ++depth;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

/// Identifies a directory independent of its name, to detect links that lead back.
struct DirectoryIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const DirectoryIdentity&) const = default;
};

/// A list of patterns of either kind.
class PatternFile {
 public:
  /// `skipped`: the bytes of the file's directory in paths from the top.
  PatternFile(PatternRule rule, ByteView text, size_t skipped) : skipped_(skipped) {
    if (rule == PatternRule::kGit) patterns_ = GitignoreFile(text);
    if (rule == PatternRule::kRsync) patterns_ = RsyncFilter(text, skipped);
  }
  PatternFile(PatternRule rule, const std::vector<std::string>& excludes) {
    const std::string lines = fmt::format("{}\n", fmt::join(excludes, "\n"));
    if (rule == PatternRule::kGit) patterns_ = GitignoreFile(lines);
    if (rule == PatternRule::kRsync) patterns_ = RsyncFilter(std::span(excludes));
  }

  /// `path`: from the top.
  IgnoreVerdict Match(std::string_view path, bool is_directory) const {
    const auto* rsync = std::get_if<RsyncFilter>(&patterns_);
    if (rsync != nullptr) return rsync->Match(path, is_directory);
    return std::get<GitignoreFile>(patterns_).Match(path.substr(skipped_), is_directory);
  }

 private:
  size_t skipped_ = 0;
  std::variant<GitignoreFile, RsyncFilter> patterns_;
};

class Walk {
 public:
  Walk(const std::string& directory, UniqueFd top, const DirectoryRules& rules)
      : directory_(directory),
        top_(std::move(top)),
        rules_(rules),
        excludes_(rules.patterns, rules.excludes),
        files_of_rules_(rules.ignore_files.size()) {}

  void Run() {
    struct stat info {};
    if (::fstat(top_.get(), &info) == 0) above_.push_back({info.st_dev, info.st_ino});
    VisitDirectory("");
    listing_.entries.insert(listing_.entries.end(), modes_.rbegin(), modes_.rend());
  }

  Result<DirectoryListing> Take() {
    if (special_.count > 0) {
      return Status(ErrorCode::kUsage, special_.first + special_.More(), rules_.way_out);
    }
    if (unreadable_.count > 0) {
      return Status(ErrorCode::kFileUnreadable, unreadable_.first + unreadable_.More(),
                    "give yourself access, or " + rules_.way_out);
    }
    if (dangling_.count > 0 && rules_.links == LinkRule::kFollow) {
      return Status(ErrorCode::kUsage,
                    fmt::format("{} leads nowhere{}", dangling_.first, dangling_.More()),
                    "mend the link, or " + rules_.way_out);
    }
    if (dangling_.count > 0) {
      listing_.warnings.push_back(
          fmt::format("{} leads nowhere{}: copied as it is", dangling_.first, dangling_.More()));
    }
    if (leading_out_.count > 0) {
      listing_.warnings.push_back(fmt::format(
          "{} leads out of the directory{}: copied as it is, and the hosts may not have "
          "what it leads to",
          leading_out_.first, leading_out_.More()));
    }
    return std::move(listing_);
  }

 private:
  std::string Shown(const std::string& path) const {
    return ShownText(path.empty() ? directory_ : fmt::format("{}/{}", directory_, path),
                     kShownBytes);
  }

  void NoteUnreadable(const std::string& path, int error) {
    unreadable_.Add(ErrnoStatus(Shown(path), error).message());
  }

  void VisitDirectory(const std::string& path) {
    std::vector<std::string> names;
    if (!ReadNames(path, names)) return;
    std::vector<bool> has_rules;
    for (size_t kind = 0; kind < files_of_rules_.size(); ++kind) {
      const std::string& name = rules_.ignore_files[kind];
      has_rules.push_back(std::binary_search(names.begin(), names.end(), name) &&
                          PushRules(path, kind));
    }
    for (const std::string& name : names) {
      VisitEntry(path, path.empty() ? name : fmt::format("{}/{}", path, name), name);
    }
    for (size_t kind = 0; kind < has_rules.size(); ++kind) {
      if (has_rules[kind]) files_of_rules_[kind].pop_back();
    }
  }

  bool ReadNames(const std::string& path, std::vector<std::string>& names) {
    const int no_links = rules_.links == LinkRule::kKeep ? O_NOFOLLOW : 0;
    const int fd = ::openat(top_.get(), path.empty() ? "." : path.c_str(),
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_links);
    const std::unique_ptr<DIR, CloseDirectory> dir(fd < 0 ? nullptr : ::fdopendir(fd));
    if (!dir) {
      NoteUnreadable(path, errno);
      return false;
    }
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): ours alone
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (name == ".git" && rules_.patterns == PatternRule::kGit) continue;
      if (path.empty() && !rules_.only.empty() && name != rules_.only) continue;
      if (name.starts_with(wire::kDirectoryTemporaryPrefix)) continue;
      names.emplace_back(name);
    }
    if (errno != 0) {
      NoteUnreadable(path, errno);
      return false;
    }
    std::sort(names.begin(), names.end());
    return true;
  }

  /// As in git, only a regular file counts, not a link or a directory of that name.
  bool PushRules(const std::string& path, size_t kind) {
    const std::string& base = rules_.ignore_files[kind];
    const std::string name = path.empty() ? base : fmt::format("{}/{}", path, base);
    struct stat info {};
    if (::fstatat(top_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      return false;
    }
    const Result<std::string> text =
        ReadFile(fmt::format("{}/{}", directory_, name), kMaxIgnoreBytes);
    if (!text.ok()) {
      unreadable_.Add(text.status().message());
      return false;
    }
    files_of_rules_[kind].emplace_back(rules_.patterns, ByteView(*text),
                                       path.empty() ? 0 : path.size() + 1);
    return true;
  }

  /// Among files of one name the nearest to the path decides.
  bool IsIgnored(const std::string& path, bool is_directory) const {
    const IgnoreVerdict whole = excludes_.Match(rules_.top + path, is_directory);
    if (whole == IgnoreVerdict::kIgnored) return true;
    // To rsync, excludes and files of patterns are one list, of which the first match decides.
    if (whole == IgnoreVerdict::kKept && rules_.patterns == PatternRule::kRsync) return false;
    const auto is_out = [&](const std::vector<PatternFile>& files) {
      for (auto rules = files.rbegin(); rules != files.rend(); ++rules) {
        const IgnoreVerdict verdict = rules->Match(path, is_directory);
        if (verdict != IgnoreVerdict::kNone) return verdict == IgnoreVerdict::kIgnored;
      }
      return false;
    };
    return std::any_of(files_of_rules_.begin(), files_of_rules_.end(), is_out);
  }

  void VisitEntry(const std::string& directory, const std::string& path, const std::string& name) {
    struct stat info {};
    if (::fstatat(top_.get(), path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) NoteUnreadable(path, errno);  // gone since the directory was read
      return;
    }
    const bool is_link = S_ISLNK(info.st_mode);
    if (is_link && rules_.links == LinkRule::kFollow) {
      if (::fstatat(top_.get(), path.c_str(), &info, 0) != 0) {
        if (!IsIgnored(path, /*is_directory=*/false)) dangling_.Add(LinkText(path));
        return;
      }
    }
    if (IsIgnored(path, S_ISDIR(info.st_mode))) return;
    if (path.size() > wire::kMaxDirectoryPath) return NoteUnreadable(name, ENAMETOOLONG);
    wire::DirectoryEntry entry;
    entry.path = path;
    entry.mode = static_cast<uint16_t>(info.st_mode & kModeBits);
    if (S_ISDIR(info.st_mode)) {
      AddDirectory(info, std::move(entry));
    } else if (S_ISLNK(info.st_mode)) {
      AddLink(directory, std::move(entry));
    } else if (S_ISREG(info.st_mode)) {
      AddFile(info, std::move(entry));
    } else {
      special_.Add(
          fmt::format("{} is a {}, which can't be copied", Shown(path), KindOf(info.st_mode)));
    }
  }

  void AddDirectory(const struct stat& info, wire::DirectoryEntry entry) {
    const DirectoryIdentity identity{info.st_dev, info.st_ino};
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      special_.Add(fmt::format("{} leads back to a directory above it", LinkText(entry.path)));
      return;
    }
    entry.kind = wire::DirectoryEntryKind::kDirectory;
    const std::string path = entry.path;
    if ((entry.mode & kOwnerAll) != kOwnerAll) {
      modes_.push_back(entry);
      modes_.back().kind = wire::DirectoryEntryKind::kDirectoryMode;
    }
    listing_.entries.push_back(std::move(entry));
    above_.push_back(identity);
    VisitDirectory(path);
    above_.pop_back();
  }

  /// "DIR/a -> b"
  std::string LinkText(const std::string& path) const {
    std::string text(wire::kMaxDirectoryPath, '\0');
    const ssize_t length = ::readlinkat(top_.get(), path.c_str(), text.data(), text.size());
    text.resize(length < 0 ? 0 : static_cast<size_t>(length));
    return fmt::format("{} -> {}", Shown(path), ShownText(text, kShownBytes));
  }

  void AddLink(const std::string& directory, wire::DirectoryEntry entry) {
    std::string text(wire::kMaxDirectoryPath + 1, '\0');
    const ssize_t length = ::readlinkat(top_.get(), entry.path.c_str(), text.data(), text.size());
    if (length <= 0) return NoteUnreadable(entry.path, length < 0 ? errno : EINVAL);
    if (static_cast<size_t>(length) > wire::kMaxDirectoryPath) {
      return NoteUnreadable(entry.path, ENAMETOOLONG);
    }
    text.resize(static_cast<size_t>(length));
    const std::string shown =
        fmt::format("{} -> {}", Shown(entry.path), ShownText(text, kShownBytes));
    struct stat info {};
    if (LeadsOut(directory, text)) {
      leading_out_.Add(shown);
    } else if (::fstatat(top_.get(), entry.path.c_str(), &info, 0) != 0) {
      dangling_.Add(shown);
    }
    entry.kind = wire::DirectoryEntryKind::kLink;
    entry.mode = kModeBits;
    entry.link = std::move(text);
    listing_.entries.push_back(std::move(entry));
  }

  void AddFile(const struct stat& info, wire::DirectoryEntry entry) {
    if (::faccessat(top_.get(), entry.path.c_str(), R_OK, AT_EACCESS) != 0) {
      return NoteUnreadable(entry.path, errno);
    }
    entry.size = static_cast<uint64_t>(info.st_size);
    entry.mtime_s = info.st_mtim.tv_sec;
    entry.mtime_ns = static_cast<uint32_t>(info.st_mtim.tv_nsec);
    ++listing_.files;
    listing_.bytes += entry.size;
    listing_.entries.push_back(std::move(entry));
  }

  const std::string directory_;
  UniqueFd top_;
  const DirectoryRules& rules_;
  DirectoryListing listing_;
  std::vector<wire::DirectoryEntry> modes_;  // of directories that their owner may not write to
  const PatternFile excludes_;
  std::vector<std::vector<PatternFile>> files_of_rules_;  // on the way down, by name
  std::vector<DirectoryIdentity> above_;                  // the directories above the walk
  Places special_;
  Places unreadable_;
  Places dangling_;
  Places leading_out_;
};

}  // namespace

Result<DirectoryListing> ListDirectory(const std::string& directory, const DirectoryRules& rules) {
  UniqueFd top(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top.is_valid()) {
    return ErrnoStatus(ShownText(directory, kShownBytes), errno)
        .WithCode(ErrorCode::kFileUnreadable);
  }
  Walk walk(directory, std::move(top), rules);
  walk.Run();
  return walk.Take();
}

}  // namespace hvdray
