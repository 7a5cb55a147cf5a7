#include "launcher/engine/folder_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/gitignore.h"
#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr mode_t kModeBits = 0777;
constexpr mode_t kOwnerAll = 0700;
constexpr size_t kMaxIgnoreBytes = size_t{16} << 20;
constexpr size_t kShownBytes = 4096;  // a place is shown whole

std::string_view KindOf(mode_t mode) {
  if (S_ISSOCK(mode)) return "socket";
  if (S_ISFIFO(mode)) return "named pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "device";
  return "file of an unknown kind";
}

struct CloseFolder {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// Places of one kind, of which the first is named.
struct Places {
  std::string first;
  size_t count = 0;

  void Add(std::string place) {
    if (count++ == 0) first = std::move(place);
  }
  std::string More() const { return count < 2 ? "" : fmt::format(" (and {} more)", count - 1); }
};

/// Does a link in `folder` (relative to the top) that says `text` lead out of the top?
bool LeadsOut(std::string_view folder, std::string_view text) {
  if (text.starts_with('/')) return true;
  auto depth = folder.empty() ? 0 : 1 + std::count(folder.begin(), folder.end(), '/');
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

class Walk {
 public:
  Walk(const std::string& folder, UniqueFd top) : folder_(folder), top_(std::move(top)) {}

  void Run() {
    VisitFolder("");
    listing_.entries.insert(listing_.entries.end(), modes_.rbegin(), modes_.rend());
  }

  Result<FolderListing> Take() {
    if (special_.count > 0) {
      return Status(ErrorCode::kUsage, special_.first + special_.More(),
                    "leave it out by a line in .gitignore");
    }
    if (unreadable_.count > 0) {
      return Status(ErrorCode::kFileUnreadable, unreadable_.first + unreadable_.More(),
                    "give yourself access, or leave it out by a line in .gitignore");
    }
    if (dangling_.count > 0) {
      listing_.warnings.push_back(
          fmt::format("{} leads nowhere{}: copied as it is", dangling_.first, dangling_.More()));
    }
    if (leading_out_.count > 0) {
      listing_.warnings.push_back(
          fmt::format("{} leads out of the folder{}: copied as it is, and the hosts may not have "
                      "what it leads to",
                      leading_out_.first, leading_out_.More()));
    }
    return std::move(listing_);
  }

 private:
  /// The rules of the .gitignore file of one folder on the way down.
  struct Rules {
    size_t skipped = 0;  // bytes of a path that lead to that folder
    GitignoreFile file;
  };

  std::string Shown(const std::string& path) const {
    return ShownText(path.empty() ? folder_ : fmt::format("{}/{}", folder_, path), kShownBytes);
  }

  void NoteUnreadable(const std::string& path, int error) {
    unreadable_.Add(ErrnoStatus(Shown(path), error).message());
  }

  void VisitFolder(const std::string& path) {
    std::vector<std::string> names;
    if (!ReadNames(path, names)) return;
    const bool has_rules =
        std::binary_search(names.begin(), names.end(), ".gitignore") && PushRules(path);
    for (const std::string& name : names) {
      VisitEntry(path, path.empty() ? name : fmt::format("{}/{}", path, name), name);
    }
    if (has_rules) rules_.pop_back();
  }

  bool ReadNames(const std::string& path, std::vector<std::string>& names) {
    const int fd = ::openat(top_.get(), path.empty() ? "." : path.c_str(),
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const std::unique_ptr<DIR, CloseFolder> dir(fd < 0 ? nullptr : ::fdopendir(fd));
    if (!dir) {
      NoteUnreadable(path, errno);
      return false;
    }
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): ours alone
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == ".." || name == ".git") continue;
      if (name.starts_with(wire::kFolderTemporaryPrefix)) continue;
      names.emplace_back(name);
    }
    if (errno != 0) {
      NoteUnreadable(path, errno);
      return false;
    }
    std::sort(names.begin(), names.end());
    return true;
  }

  /// As git does: only a file of its own counts, no link and no folder of that name.
  bool PushRules(const std::string& path) {
    const std::string name = path.empty() ? ".gitignore" : path + "/.gitignore";
    struct stat info {};
    if (::fstatat(top_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      return false;
    }
    const Result<std::string> text = ReadFile(fmt::format("{}/{}", folder_, name), kMaxIgnoreBytes);
    if (!text.ok()) {
      unreadable_.Add(text.status().message());
      return false;
    }
    rules_.push_back({path.empty() ? 0 : path.size() + 1, GitignoreFile(*text)});
    return true;
  }

  /// The file nearest to the path decides.
  bool IsIgnored(const std::string& path, bool is_folder) const {
    for (auto rules = rules_.rbegin(); rules != rules_.rend(); ++rules) {
      const IgnoreVerdict verdict =
          rules->file.Match(std::string_view(path).substr(rules->skipped), is_folder);
      if (verdict != IgnoreVerdict::kNone) return verdict == IgnoreVerdict::kIgnored;
    }
    return false;
  }

  void VisitEntry(const std::string& folder, const std::string& path, const std::string& name) {
    struct stat info {};
    if (::fstatat(top_.get(), path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) NoteUnreadable(path, errno);  // gone since the folder was read
      return;
    }
    if (IsIgnored(path, S_ISDIR(info.st_mode))) return;
    if (path.size() > wire::kMaxFolderPath) return NoteUnreadable(name, ENAMETOOLONG);
    wire::FolderEntry entry;
    entry.path = path;
    entry.mode = static_cast<uint16_t>(info.st_mode & kModeBits);
    if (S_ISDIR(info.st_mode)) {
      AddFolder(std::move(entry));
    } else if (S_ISLNK(info.st_mode)) {
      AddLink(folder, std::move(entry));
    } else if (S_ISREG(info.st_mode)) {
      AddFile(info, std::move(entry));
    } else {
      special_.Add(
          fmt::format("{} is a {}, which can't be copied", Shown(path), KindOf(info.st_mode)));
    }
  }

  void AddFolder(wire::FolderEntry entry) {
    entry.kind = wire::FolderEntryKind::kFolder;
    const std::string path = entry.path;
    if ((entry.mode & kOwnerAll) != kOwnerAll) {
      modes_.push_back(entry);
      modes_.back().kind = wire::FolderEntryKind::kFolderMode;
    }
    listing_.entries.push_back(std::move(entry));
    VisitFolder(path);
  }

  void AddLink(const std::string& folder, wire::FolderEntry entry) {
    std::string text(wire::kMaxFolderPath + 1, '\0');
    const ssize_t length = ::readlinkat(top_.get(), entry.path.c_str(), text.data(), text.size());
    if (length <= 0) return NoteUnreadable(entry.path, length < 0 ? errno : EINVAL);
    if (static_cast<size_t>(length) > wire::kMaxFolderPath) {
      return NoteUnreadable(entry.path, ENAMETOOLONG);
    }
    text.resize(static_cast<size_t>(length));
    const std::string shown =
        fmt::format("{} -> {}", Shown(entry.path), ShownText(text, kShownBytes));
    struct stat info {};
    if (LeadsOut(folder, text)) {
      leading_out_.Add(shown);
    } else if (::fstatat(top_.get(), entry.path.c_str(), &info, 0) != 0) {
      dangling_.Add(shown);
    }
    entry.kind = wire::FolderEntryKind::kLink;
    entry.mode = kModeBits;
    entry.link = std::move(text);
    listing_.entries.push_back(std::move(entry));
  }

  void AddFile(const struct stat& info, wire::FolderEntry entry) {
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

  const std::string folder_;
  UniqueFd top_;
  FolderListing listing_;
  std::vector<wire::FolderEntry> modes_;  // of folders that their owner may not write to
  std::vector<Rules> rules_;
  Places special_;
  Places unreadable_;
  Places dangling_;
  Places leading_out_;
};

}  // namespace

Result<FolderListing> ListFolder(const std::string& folder) {
  UniqueFd top(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top.is_valid()) {
    return ErrnoStatus(ShownText(folder, kShownBytes), errno).WithCode(ErrorCode::kFileUnreadable);
  }
  Walk walk(folder, std::move(top));
  walk.Run();
  return walk.Take();
}

}  // namespace hvdray
