// SPDX-License-Identifier: Apache-2.0
#include "agent/directory_receiver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/path_walk.h"

namespace hvdray {
namespace {

constexpr mode_t kModeBits = 0777;
constexpr mode_t kOwnerAll = 0700;
constexpr mode_t kNewDirectory = 0755;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Reports progress after this much or at the end of a list: well below the launcher's window.
constexpr uint32_t kTellBytes = 32 << 10;
constexpr uint32_t kTellFiles = 64;

Status Violation(std::string_view what) {
  return {ErrorCode::kProtocolError, fmt::format("File: {}", what)};
}

// Not writable by others: they may be able to reach here what is private on the launcher's machine.
mode_t ModeOf(mode_t mode) { return mode & kModeBits & ~(S_IWGRP | S_IWOTH); }

// Of a file or directory open as O_PATH, for which fchmod() does not work.
bool ChangeMode(int fd, mode_t mode) {
  return ::chmod(fmt::format("/proc/self/fd/{}", fd).c_str(), mode) == 0;
}

// Root's directory may be closed to us: writing files will show whether it accepts them.
void SetMode(const UniqueFd& directory, const struct stat& info, mode_t mode) {
  constexpr mode_t kSpecialBits = 07000;
  const mode_t now = info.st_mode & kModeBits;
  if (now == mode || now == ModeOf(mode)) return;
  (void)!ChangeMode(directory.get(), ModeOf(mode) | (info.st_mode & kSpecialBits));
}

std::string_view NameIn(const std::string& path) {
  return std::string_view(path).substr(path.rfind('/') + 1);  // npos + 1 is 0.
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// Includes the host name: hosts may share the file system, and so the directory of temporaries.
std::string TemporaryPrefix() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{:.64}.{}.", wire::kDirectoryTemporaryPrefix, host.data(), ::getpid());
}

}  // namespace

DirectoryReceiver::DirectoryReceiver(std::string home)
    : home_(std::move(home)), temporary_prefix_(TemporaryPrefix()) {}

DirectoryReceiver::~DirectoryReceiver() { DropTemporary(); }

bool DirectoryReceiver::Fail(const char* step, int error, const std::string& path) {
  return FailAt(step, error, path.empty() ? root_ : fmt::format("{}/{}", root_, path));
}

bool DirectoryReceiver::FailAt(const char* step, int error, std::string place) {
  DropTemporary();
  place.resize(std::min(place.size(), wire::kMaxDirectoryPath));
  problem_ = wire::DirectoryProblem{error, step, std::move(place)};
  return false;
}

Result<wire::Body> DirectoryReceiver::OnList(wire::DirectoryList&& list) {
  if (next_ < wanted_.size()) {
    return Status(ErrorCode::kProtocolError, "DirectoryList before all files of the last one");
  }
  if (problem_) return wire::Body(*problem_);
  const bool is_first = directory_ != list.directory;
  if (is_first || is_one_file_) {
    is_one_file_ = is_first && list.entries.size() == 1 && HasContents(list.entries[0].kind);
    if (!OpenRoot(list.target, list.trustees)) return wire::Body(*problem_);
    directory_ = list.directory;
  }
  entries_ = std::move(list.entries);
  wanted_.clear();
  next_ = 0;
  wire::DirectoryWanted answer;
  answer.root = root_;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Need need = Need::kNothing;
    if (!Visit(entries_[i], need)) {
      wanted_.clear();
      return wire::Body(*problem_);
    }
    if (need == Need::kLink) ++answer.links;
    if (need != Need::kFile) continue;
    const auto index = static_cast<uint32_t>(i);
    wanted_.push_back(index);
    const bool goes_on =
        !answer.ranges.empty() && answer.ranges.back().first + answer.ranges.back().count == index;
    if (goes_on) {
      ++answer.ranges.back().count;
    } else {
      answer.ranges.push_back({index, 1});
    }
  }
  return wire::Body(std::move(answer));
}

// The user named the path to the target: follows links in it and creates missing directories. What
// is copied there will be executed, so nobody may be able to change it who can't change the source;
// of one file that holds in a sticky directory, too.
bool DirectoryReceiver::OpenRoot(const std::string& target, const Trustees& trustees) {
  parent_fd_.Reset();
  parent_.clear();
  root_ = target;
  if (!target.starts_with('/')) {
    if (!home_.starts_with('/')) return Fail("find the home directory", ENOENT, "");
    root_ = target.empty() ? home_ : fmt::format("{}/{}", home_, target);
  }
  while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
  PathFault fault;
  const WalkRule rule =
      is_one_file_ ? WalkRule::kOwnDirectoriesToSticky : WalkRule::kOwnDirectories;
  std::optional<PathEnd> end = WalkToDirectory(root_, rule, kNewDirectory, fault, trustees);
  if (!end) return FailAt(fault.what, fault.error, std::move(fault.path));
  root_trustees_ = std::move(end->trustees);
  root_fd_.Reset(::openat(end->directory.get(), ".", kDirectoryFlags));
  return root_fd_.is_valid() || Fail("open directory", errno, "");
}

// Opens the directory of `path` part by part, so that it follows no link on the way.
bool DirectoryReceiver::OpenParent(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  if (parent_fd_.is_valid() && directory == parent_) return true;
  UniqueFd fd(::openat(root_fd_.get(), ".", kDirectoryFlags));
  if (!fd.is_valid()) return Fail("open directory", errno, "");
  Trustees trustees = root_trustees_;
  for (size_t begin = 0; begin < directory.size();) {
    const size_t end = std::min(directory.find('/', begin), directory.size());
    struct stat info {};
    UniqueFd next(
        ::openat(fd.get(), directory.substr(begin, end - begin).c_str(), kDirectoryFlags));
    if (!next.is_valid() || ::fstat(next.get(), &info) != 0) {
      return Fail("open directory", errno, directory.substr(0, end));
    }
    if (const char* distrust = DistrustOf(info, trustees)) {
      return Fail(distrust, 0, directory.substr(0, end));
    }
    trustees = TrusteesBelow(info, std::move(trustees));
    fd = std::move(next);
    begin = end + 1;
  }
  parent_fd_ = std::move(fd);
  parent_trustees_ = std::move(trustees);
  parent_ = directory;
  return true;
}

// Without following a link: what is looked at is what is changed.
UniqueFd DirectoryReceiver::OpenEntry(const std::string& path) const {
  return UniqueFd(::openat(parent_fd_.get(), std::string(NameIn(path)).c_str(),
                           O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

bool DirectoryReceiver::Visit(wire::DirectoryEntry& entry, Need& need) {
  // The decoder has checked this, too, but this check keeps us within the target.
  if (!wire::IsPlainPath(entry.path)) return Fail("use the path", EINVAL, "");
  if (!OpenParent(entry.path)) return false;
  switch (entry.kind) {
    case wire::DirectoryEntryKind::kFileOrInto: {
      const std::string name(NameIn(entry.path));
      struct stat info {};
      const bool is_directory =
          ::fstatat(parent_fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISDIR(info.st_mode);
      if (is_directory) entry.path += "/" + entry.link;
      if (!wire::IsPlainPath(entry.path) || !OpenParent(entry.path)) {
        return problem_ ? false : Fail("use the path", EINVAL, "");
      }
      return VisitFile(entry, need);
    }
    case wire::DirectoryEntryKind::kFile:
      return VisitFile(entry, need);
    case wire::DirectoryEntryKind::kDirectory:
      return MakeDirectory(entry);
    case wire::DirectoryEntryKind::kLink:
      return VisitLink(entry, need);
    case wire::DirectoryEntryKind::kDirectoryMode:
      return SetDirectoryMode(entry);
  }
  return true;
}

bool DirectoryReceiver::VisitFile(const wire::DirectoryEntry& entry, Need& need) {
  need = Need::kFile;
  const UniqueFd file = OpenEntry(entry.path);
  struct stat info {};
  if (!file.is_valid() && errno == ENOENT) return true;
  if (!file.is_valid() || ::fstat(file.get(), &info) != 0) {
    return Fail("look at", errno, entry.path);
  }
  if (S_ISDIR(info.st_mode)) return Fail("write a file over the directory", EISDIR, entry.path);
  const bool is_same = S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == entry.size &&
                       info.st_mtim.tv_sec == entry.mtime_s &&
                       info.st_mtim.tv_nsec == static_cast<long>(entry.mtime_ns);
  // Another user's file is replaced, since he can still change it.
  if (!is_same || !IsTrustedOwner(info.st_uid, parent_trustees_)) return true;
  const mode_t mode = info.st_mode & kModeBits;
  const bool is_trusted = DistrustOf(info, parent_trustees_) == nullptr;
  const bool is_fine = mode == ModeOf(entry.mode) || (mode == entry.mode && is_trusted);
  if (is_fine || ChangeMode(file.get(), ModeOf(entry.mode))) need = Need::kNothing;
  return true;
}

bool DirectoryReceiver::VisitLink(const wire::DirectoryEntry& entry, Need& need) {
  const std::string name(NameIn(entry.path));
  std::string text(entry.link.size() + 1, '\0');
  const ssize_t length = ::readlinkat(parent_fd_.get(), name.c_str(), text.data(), text.size());
  if (length >= 0 && std::string_view(text.data(), static_cast<size_t>(length)) == entry.link) {
    return true;
  }
  struct stat info {};
  if (::fstatat(parent_fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(info.st_mode)) {
    return Fail("make a link over the directory", EISDIR, entry.path);
  }
  need = Need::kLink;
  return MakeLink(entry);
}

bool DirectoryReceiver::MakeLink(const wire::DirectoryEntry& entry) {
  const std::string temporary = NextTemporaryName();
  if (::symlinkat(entry.link.c_str(), parent_fd_.get(), temporary.c_str()) != 0) {
    return Fail("make link", errno, entry.path);
  }
  temporary_ = temporary;
  return Rename(entry.path);
}

bool DirectoryReceiver::MakeDirectory(const wire::DirectoryEntry& entry) {
  const std::string name(NameIn(entry.path));
  const int error =
      ::mkdirat(parent_fd_.get(), name.c_str(), kOwnerAll) == 0 || errno == EEXIST ? 0 : errno;
  const UniqueFd directory = OpenEntry(entry.path);
  struct stat info {};
  if (!directory.is_valid() || ::fstat(directory.get(), &info) != 0) {
    return Fail("create directory", error != 0 ? error : errno, entry.path);
  }
  // Rejects links as well: they may lead anywhere.
  if (!S_ISDIR(info.st_mode)) return Fail("create a directory over", ENOTDIR, entry.path);
  // What lies there already may be executed, too.
  if (const char* distrust = DistrustOf(info, parent_trustees_)) {
    return Fail(distrust, 0, entry.path);
  }
  SetMode(directory, info, entry.mode | kOwnerAll);
  return true;
}

bool DirectoryReceiver::SetDirectoryMode(const wire::DirectoryEntry& entry) {
  const UniqueFd directory = OpenEntry(entry.path);
  struct stat info {};
  if (!directory.is_valid() || ::fstat(directory.get(), &info) != 0) {
    return Fail("look at", errno, entry.path);
  }
  if (!S_ISDIR(info.st_mode)) return Fail("set the mode of", ENOTDIR, entry.path);
  SetMode(directory, info, entry.mode);
  return true;
}

Result<std::optional<wire::Body>> DirectoryReceiver::OnFile(const wire::File& file) {
  using Answer = std::optional<wire::Body>;
  if (problem_) return Answer();  // Reported already: drops files that were on their way.
  if (next_ >= wanted_.size()) return Violation("no file is expected");
  if (file.entry != wanted_[next_]) return Violation("another file is expected");
  if (file.is_restart) {
    DropTemporary();
    return Answer();
  }
  const bool is_fine = Append(file) && (!file.is_end || FinishFile(file));
  if (!is_fine) {
    wanted_.clear();
    next_ = 0;
    return Answer(*problem_);
  }
  taken_.bytes += static_cast<uint32_t>(file.bytes.size());
  if (file.is_end) {
    ++taken_.files;
    ++next_;
  }
  const bool is_told = taken_.bytes >= kTellBytes || taken_.files >= kTellFiles;
  if (!is_told && next_ < wanted_.size()) return Answer();
  return Answer(std::exchange(taken_, {}));
}

std::string DirectoryReceiver::NextTemporaryName() {
  return temporary_prefix_ + std::to_string(++temporaries_);
}

bool DirectoryReceiver::OpenTemporary() {
  const std::string& path = entries_[wanted_[next_]].path;
  if (!OpenParent(path)) return false;
  const std::string name = NextTemporaryName();
  UniqueFd fd(::openat(parent_fd_.get(), name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.is_valid()) return Fail("write", errno, path);
  file_ = std::move(fd);
  temporary_ = name;
  return true;
}

bool DirectoryReceiver::Append(const wire::File& file) {
  if (temporary_.empty() && !OpenTemporary()) return false;
  ByteView bytes = file.bytes;
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail("write", errno, entries_[file.entry].path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool DirectoryReceiver::FinishFile(const wire::File& file) {
  const std::string& path = entries_[file.entry].path;
  const timespec times[2] = {{0, UTIME_OMIT},
                             {static_cast<time_t>(file.mtime_s), static_cast<long>(file.mtime_ns)}};
  if (::fchmod(file_.get(), ModeOf(file.mode)) != 0) return Fail("set the mode of", errno, path);
  if (::futimens(file_.get(), times) != 0) return Fail("set the time of", errno, path);
  // Network file systems may report a full disk only now.
  if (::close(file_.Release()) != 0) return Fail("write", errno, path);
  return Rename(path);
}

bool DirectoryReceiver::Rename(const std::string& path) {
  const std::string name(NameIn(path));
  if (::renameat(parent_fd_.get(), temporary_.c_str(), parent_fd_.get(), name.c_str()) != 0) {
    return Fail("put in place", errno, path);
  }
  temporary_.clear();
  return true;
}

void DirectoryReceiver::DropTemporary() {
  file_.Reset();
  if (temporary_.empty()) return;
  (void)!::unlinkat(parent_fd_.get(), temporary_.c_str(), 0);
  temporary_.clear();
}

}  // namespace hvdray
