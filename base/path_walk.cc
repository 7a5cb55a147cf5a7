// SPDX-License-Identifier: Apache-2.0
#include "base/path_walk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr int kMaxLinks = 40;  // the kernel's limit
constexpr char kForeignLink[] = "another user owns the link";
constexpr char kForeignOwner[] = "another user owns";
constexpr char kOpenToOthers[] = "other users may write to";

// A line of /etc/passwd or /etc/group: "name:password:id:..."
struct Account {
  std::string_view name;
  std::string_view id;
  std::string_view rest;  // "gid:..." of a user, the members of a group
};

std::vector<Account> Accounts(const std::string& text) {
  std::vector<Account> accounts;
  for (const std::string_view line : LinesOf(text)) {
    const size_t password = line.find(':');
    const size_t id = password == line.npos ? line.npos : line.find(':', password + 1);
    const size_t rest = id == line.npos ? line.npos : line.find(':', id + 1);
    if (rest == line.npos) continue;
    accounts.push_back(
        {line.substr(0, password), line.substr(id + 1, rest - id - 1), line.substr(rest + 1)});
  }
  return accounts;
}

// Whether the members of a group are root or `us`.
bool IsNobodyElse(std::string_view members, std::string_view us) {
  const std::vector<std::string_view> names = BlankSeparated(members, ",");
  return std::all_of(names.begin(), names.end(),
                     [us](std::string_view name) { return name == us || name == "root"; });
}

// Reads the files, since static programs have no name service. A group that only a directory
// service knows may have members, so it is not private. Root's group may be the primary one of
// system accounts that nobody can log in to; in containers it is that of every user.
bool IsPrivateGroup(gid_t gid) {
  constexpr size_t kMaxFile = size_t{4} << 20;
  const std::string users = ReadFile("/etc/passwd", kMaxFile).value_or("");
  const std::string groups = ReadFile("/etc/group", kMaxFile).value_or("");
  const std::string our_id = std::to_string(::geteuid());
  const std::string group_id = std::to_string(gid);
  std::string_view our_name;
  bool is_primary_of_others = false;
  for (const Account& user : Accounts(users)) {
    const bool is_us = user.id == our_id;
    if (is_us) our_name = user.name;
    is_primary_of_others |= !is_us && user.rest.substr(0, user.rest.find(':')) == group_id;
  }
  if (gid != 0 && (our_name.empty() || is_primary_of_others)) return false;
  for (const Account& group : Accounts(groups)) {
    if (group.id != group_id) continue;
    return (gid == 0 || group.name == our_name) && IsNobodyElse(group.rest, our_name);
  }
  return gid == 0;
}

bool Has(const std::vector<uint32_t>& ids, uint32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool IsOpenToGroup(const struct stat& info) {
  return (info.st_mode & S_IWGRP) != 0 && !IsPrivateGroup(info.st_gid);
}

// Links in /proc/PID/fd lead to open files, not to the path that readlink() returns.
bool IsInProc(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

class Walker {
 public:
  Walker(WalkRule rule, bool ends_at_file, std::optional<mode_t> create_mode,
         const Trustees& trustees, PathFault& fault)
      : rule_(rule),
        ends_at_file_(ends_at_file),
        create_mode_(create_mode),
        trustees_{trustees},
        fault_(fault) {}

  std::optional<PathEnd> To(const std::string& path);

 private:
  bool Begin(std::string_view path);
  bool Step(const std::string& part);
  bool StepToFile(const std::string& part);
  bool Follow(const UniqueFd& link, const struct stat& info, const std::string& part);
  bool EnterTop(UniqueFd top, std::string path) {
    trustees_.resize(1);
    return Enter(std::move(top), std::move(path));
  }
  bool Enter(UniqueFd next, std::string path);
  bool StepInto(UniqueFd next, const std::string& part);
  UniqueFd Open(const std::string& part, int flags) const {
    return UniqueFd(::openat(directory_.get(), part.c_str(), O_PATH | O_CLOEXEC | flags));
  }
  // Who is trusted as to directory_ itself.
  const Trustees& Above() const { return trustees_[trustees_.size() - 2]; }
  std::string Below(std::string_view part) const {
    if (path_.empty()) return std::string(part);
    return fmt::format("{}{}{}", path_, path_.ends_with('/') ? "" : "/", part);
  }
  bool Fail(const char* what, int error, std::string path) {
    fault_ = {error, what, std::move(path)};
    return false;
  }

  const WalkRule rule_;
  const bool ends_at_file_;
  const std::optional<mode_t> create_mode_;
  // Who is trusted at the top, and below each directory from there to directory_.
  std::vector<Trustees> trustees_;
  PathFault& fault_;
  std::deque<std::string> parts_;  // still to go
  UniqueFd directory_;
  struct stat info_ {};  // of the directory
  std::string path_;     // of the directory; empty: the current one
  std::string name_;     // of the file
  int links_ = 0;
};

// Puts the parts of `path` in front of those to go, and goes to the root if it is absolute.
bool Walker::Begin(std::string_view path) {
  // "x/" can be nothing but a directory.
  if (path.ends_with('/') && parts_.empty()) parts_.emplace_front(".");
  const std::vector<std::string_view> parts = BlankSeparated(path, "/");
  parts_.insert(parts_.begin(), parts.begin(), parts.end());
  if (!path.starts_with('/') && directory_.is_valid()) return true;
  const char* begin = path.starts_with('/') ? "/" : ".";
  UniqueFd first(::open(begin, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!first.is_valid()) return Fail("open directory", errno, begin);
  return EnterTop(std::move(first), path.starts_with('/') ? "/" : "");
}

bool Walker::Enter(UniqueFd next, std::string path) {
  struct stat info {};
  if (::fstat(next.get(), &info) != 0) return Fail("open directory", errno, std::move(path));
  if (rule_ != WalkRule::kOwnLinks) {
    const char* distrust = DistrustOf(info, trustees_.back());
    const bool is_sticky = (info.st_mode & S_ISVTX) != 0;
    if (distrust != nullptr && (distrust != kOpenToOthers || !is_sticky)) {
      return Fail(distrust, 0, std::move(path));
    }
  }
  directory_ = std::move(next);
  info_ = info;
  path_ = std::move(path);
  trustees_.push_back(TrusteesBelow(info, trustees_.back()));
  return true;
}

// Upwards, forgets what was learnt on the way down: a directory that only we can enter says nothing
// about those above it.
bool Walker::StepInto(UniqueFd next, const std::string& part) {
  if (part == "..") trustees_.resize(std::max<size_t>(trustees_.size(), 3) - 2);
  return Enter(std::move(next), Below(part));
}

bool Walker::Follow(const UniqueFd& link, const struct stat& info, const std::string& part) {
  if (++links_ > kMaxLinks) return Fail("open directory", ELOOP, Below(part));
  const bool is_trusted = IsTrustedOwner(info.st_uid, trustees_.front());
  if (!is_trusted && DistrustOf(info_, Above()) != nullptr) {
    return Fail(kForeignLink, 0, Below(part));
  }
  if (IsInProc(link.get())) {
    UniqueFd next = Open(part, O_DIRECTORY);
    if (!next.is_valid()) return Fail("open directory", errno, Below(part));
    return EnterTop(std::move(next), Below(part));
  }
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
  if (size <= 0) return Fail("open directory", errno, Below(part));
  return Begin({target.data(), static_cast<size_t>(size)});
}

bool Walker::Step(const std::string& part) {
  if (part == ".") return true;
  // With O_DIRECTORY, so that the kernel mounts what it mounts on demand.
  UniqueFd next = Open(part, O_DIRECTORY | O_NOFOLLOW);
  if (!next.is_valid() && errno == ENOENT && create_mode_) {
    if (::mkdirat(directory_.get(), part.c_str(), *create_mode_) != 0 && errno != EEXIST) {
      return Fail("create directory", errno, Below(part));
    }
    next = Open(part, O_DIRECTORY | O_NOFOLLOW);
  }
  if (next.is_valid()) return StepInto(std::move(next), part);
  const int error = errno;
  struct stat info {};
  const UniqueFd other = Open(part, O_NOFOLLOW);
  if ((error == ENOTDIR || error == ELOOP) && other.is_valid() &&
      ::fstat(other.get(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return Follow(other, info, part);
  }
  return Fail("open directory", error, Below(part));
}

bool Walker::StepToFile(const std::string& part) {
  struct stat info {};
  const UniqueFd file = Open(part, O_NOFOLLOW);
  if (!file.is_valid() && errno != ENOENT) return Fail("open", errno, Below(part));
  const bool is_link = file.is_valid() && ::fstat(file.get(), &info) == 0 && S_ISLNK(info.st_mode);
  if (is_link && !IsInProc(file.get())) return Follow(file, info, part);
  name_ = part;
  return true;
}

std::optional<PathEnd> Walker::To(const std::string& path) {
  if (path.empty()) {
    Fail("open", ENOENT, path);
    return std::nullopt;
  }
  if (!Begin(path)) return std::nullopt;
  while (!parts_.empty()) {
    const std::string part = std::move(parts_.front());
    parts_.pop_front();
    const bool is_file = ends_at_file_ && parts_.empty() && part != "." && part != "..";
    if (!(is_file ? StepToFile(part) : Step(part))) return std::nullopt;
  }
  const char* distrust = rule_ != WalkRule::kOwnLinks ? DistrustOf(info_, Above()) : nullptr;
  // Sticky, or Enter() had refused it: fine on the way only, or by the rule.
  if (distrust != nullptr && rule_ != WalkRule::kOwnDirectoriesToSticky) {
    Fail(distrust, 0, path_);
    return std::nullopt;
  }
  if (ends_at_file_ && name_.empty()) name_ = ".";
  std::string end = name_.empty() ? path_ : Below(name_);
  return PathEnd{std::move(directory_), std::move(name_), std::move(end), trustees_.back()};
}

}  // namespace

bool IsTrustedOwner(uid_t uid, const Trustees& trustees) {
  if (uid == ::geteuid() || uid == 0 || Has(trustees.owners, uid)) return true;
  // In a user namespace that does not map root, root's files seem to belong to somebody else. Who
  // owns "/" could exchange everything below it.
  struct stat root {};
  return ::stat("/", &root) == 0 && root.st_uid == uid;
}

Trustees TrusteesOf(const std::string& path) {
  Trustees trustees;
  std::error_code error;
  std::filesystem::path place = std::filesystem::canonical(path, error);
  while (!error && !place.empty()) {
    struct stat info {};
    if (::stat(place.c_str(), &info) != 0) break;
    const bool is_new_owner = !Has(trustees.owners, info.st_uid);
    if (is_new_owner && !IsTrustedOwner(info.st_uid)) trustees.owners.push_back(info.st_uid);
    const bool is_new_group = !Has(trustees.groups, info.st_gid);
    if (is_new_group && IsOpenToGroup(info)) trustees.groups.push_back(info.st_gid);
    trustees.is_everybody |= (info.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH;
    if (place == place.parent_path()) break;
    place = place.parent_path();
  }
  return trustees;
}

const char* DistrustOf(const struct stat& info, const Trustees& trustees) {
  if (!IsTrustedOwner(info.st_uid, trustees)) return kForeignOwner;
  if (trustees.is_everybody && (info.st_mode & S_ISVTX) == 0) return nullptr;
  if ((info.st_mode & S_IWOTH) != 0) return kOpenToOthers;
  return IsOpenToGroup(info) && !Has(trustees.groups, info.st_gid) ? kOpenToOthers : nullptr;
}

// With an access list, the bits of the group are the most that any entry of it grants.
Trustees TrusteesBelow(const struct stat& directory, Trustees above) {
  above.is_everybody |=
      (directory.st_mode & (S_IXGRP | S_IXOTH)) == 0 && IsTrustedOwner(directory.st_uid, above);
  return above;
}

bool IsOursAlone(const struct stat& info) { return DistrustOf(info) == nullptr; }

Status ToStatus(const PathFault& fault) {
  if (fault.error != 0) {
    Status cause = ErrnoStatus(fault.path, fault.error);
    if (cause.code() == ErrorCode::kOutOfResources) return cause;
    return std::move(cause).WithCode(ErrorCode::kFileUnwritable);
  }
  return {ErrorCode::kFileUnwritable, fmt::format("{} {}", fault.what, fault.path),
          "name a place that only you can write to"};
}

Status CheckNotPlanted(const PathEnd& place, const struct stat& file) {
  const auto refuse = [&place](std::string_view why) {
    return Status(ErrorCode::kFileUnwritable, fmt::format("{}: {}", place.path, why),
                  "name a file in a directory of your own");
  };
  struct stat directory {};
  if (::fstat(place.directory.get(), &directory) != 0) return refuse("its directory is gone");
  const bool is_everybodys = (directory.st_mode & S_IWOTH) != 0;
  if (is_everybodys && !IsTrustedOwner(file.st_uid) && file.st_uid != directory.st_uid) {
    return refuse("is another user's file in a directory that everybody may write to");
  }
  if (S_ISREG(file.st_mode) && file.st_nlink > 1 && !IsOursAlone(directory)) {
    return refuse("is a hard link in a directory that other users may write to");
  }
  return {};
}

std::optional<PathEnd> WalkToFile(const std::string& path, PathFault& fault) {
  return Walker(WalkRule::kOwnLinks, true, std::nullopt, {}, fault).To(path);
}

std::optional<PathEnd> WalkToDirectory(const std::string& path, WalkRule rule,
                                       std::optional<mode_t> create_mode, PathFault& fault,
                                       const Trustees& trustees) {
  return Walker(rule, false, create_mode, trustees, fault).To(path);
}

}  // namespace hvdray
