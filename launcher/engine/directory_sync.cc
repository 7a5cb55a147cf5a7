// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/directory_sync.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr size_t kListBytes = size_t{256} << 10;
constexpr size_t kEntryOverhead = 28;  // of an entry in a list, besides its texts
constexpr size_t kShownDirectoryBytes = 4096;
constexpr mode_t kFileModeBits = 0777;

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

Status Changed(std::string_view how, CopySource source) {
  const std::string_view way_out =
      source == CopySource::kSync ? "a line in .gitignore" : "rsync_exclude";
  return {ErrorCode::kSyncFailed, std::string(how),
          fmt::format("let nothing write into the directory while it is copied, or leave the file "
                      "out by {}",
                      way_out)};
}

// Converts an agent's problem.
Status ToStatus(const wire::DirectoryProblem& problem, CopySource source) {
  const std::string_view elsewhere =
      source == CopySource::kSync ? ": DIR:TARGET" : " in file_mounts";
  const std::string what =
      fmt::format("{} {}", ShownText(problem.step), ShownText(problem.path, kShownDirectoryBytes));
  if (problem.error == 0) {
    return {ErrorCode::kSyncFailed, what + ": they could change what the job runs",
            fmt::format("make it yours alone, or name a directory of your own there{}", elsewhere)};
  }
  Status status = ErrnoStatus(what, problem.error);
  if (status.code() == ErrorCode::kOutOfResources) {
    return std::move(status).WithHint(
        fmt::format("free space there, or name another place{}", elsewhere));
  }
  return std::move(status)
      .WithCode(ErrorCode::kSyncFailed)
      .WithHint(fmt::format("see what is at that place there, or name another one{}", elsewhere));
}

}  // namespace

struct DirectorySync::OpenFile {
  UniqueFd fd;
  uint32_t entry = 0;
  struct stat info {};
  uint64_t sent = 0;
  bool is_second_try = false;
};

struct DirectorySync::Host {
  int index = 0;
  size_t directory = 0;      // the current one
  size_t first = 0;          // first entry of the current list
  size_t count = 0;          // entries of the current list
  bool is_answered = false;  // the host has answered the current list
  std::deque<wire::EntryRange> wanted;
  std::optional<OpenFile> file;
  uint64_t bytes_on_way = 0;
  uint64_t files_on_way = 0;
  bool is_done = false;
  bool is_idle = true;  // no message since the last check
  Duration idle{};
  TimePoint began{};
  SyncStats stats;
  std::vector<std::string> roots;
};

DirectorySync::DirectorySync(Loop& loop, const std::vector<int>& hosts,
                             std::span<const SyncedDirectory> directories, Duration stall_limit,
                             DirectorySync::Handlers handlers, CopySource source)
    : loop_(loop),
      source_(source),
      directories_(directories),
      stall_limit_(stall_limit),
      tick_(std::clamp<Duration>(stall_limit / 4, milliseconds(5), milliseconds(1000))),
      handlers_(std::make_shared<DirectorySync::Handlers>(std::move(handlers))) {
  for (const int index : hosts) {
    hosts_.push_back(std::make_unique<Host>());
    hosts_.back()->index = index;
  }
}

DirectorySync::~DirectorySync() = default;

void DirectorySync::Start() {
  for (const SyncedDirectory& directory : directories_) {
    tops_.emplace_back(::open(directory.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    trustees_.push_back(TrusteesOf(directory.directory));
    if (tops_.back().is_valid()) continue;
    return Fail(*hosts_.front(),
                ErrnoStatus(ShownText(directory.directory, kShownDirectoryBytes), errno)
                    .WithCode(ErrorCode::kSyncFailed));
  }
  progress_timer_ = loop_.Every(tick_, [this] { CheckProgress(); });
  for (const auto& host : hosts_) {
    host->began = loop_.Now();
    SendList(*host);
  }
}

DirectorySync::Host* DirectorySync::Find(int host) {
  if (failure_) return nullptr;
  for (const auto& known : hosts_) {
    if (known->index != host) continue;
    known->is_idle = false;
    return known->is_done ? nullptr : known.get();
  }
  return nullptr;
}

const wire::DirectoryEntry& DirectorySync::EntryOf(const Host& host, uint32_t index) const {
  return directories_[host.directory].listing.entries[host.first + index];
}

void DirectorySync::SendList(Host& host) {
  const SyncedDirectory& directory = directories_[host.directory];
  const std::vector<wire::DirectoryEntry>& entries = directory.listing.entries;
  wire::DirectoryList list;
  list.directory = static_cast<uint32_t>(host.directory);
  list.target = directory.target;
  list.trustees = trustees_[host.directory];
  size_t bytes = 0;
  for (size_t i = host.first; i < entries.size(); ++i) {
    const wire::DirectoryEntry& entry = entries[i];
    bytes += kEntryOverhead + entry.path.size() + entry.link.size();
    if (list.entries.size() == wire::kMaxDirectoryEntries) break;
    if (bytes > kListBytes && !list.entries.empty()) break;
    list.entries.push_back(entry);
  }
  host.count = list.entries.size();
  host.is_answered = false;
  handlers_->send(host.index, std::move(list));
}

bool DirectorySync::OnMessage(int host, const wire::Message& message) {
  if (const auto* wanted = std::get_if<wire::DirectoryWanted>(&message.body)) {
    OnWanted(host, *wanted);
  } else if (const auto* taken = std::get_if<wire::FileTaken>(&message.body)) {
    OnTaken(host, *taken);
  } else if (const auto* problem = std::get_if<wire::DirectoryProblem>(&message.body)) {
    OnProblem(host, *problem);
  } else {
    return false;
  }
  return true;
}

void DirectorySync::OnWanted(int index, const wire::DirectoryWanted& wanted) {
  Host* host = Find(index);
  if (host == nullptr) return;
  const auto is_sound = [&] {
    if (host->is_answered || wanted.root.empty() || wanted.root.front() != '/') return false;
    for (const wire::EntryRange& range : wanted.ranges) {
      for (uint32_t i = 0; i < range.count; ++i) {
        if (range.first + i >= host->count) return false;
        if (!wire::HasContents(EntryOf(*host, range.first + i).kind)) return false;
      }
    }
    return true;
  };
  if (!is_sound()) {
    return Fail(*host, {ErrorCode::kProtocolError, "DirectoryWanted that does not fit its list"});
  }
  host->is_answered = true;
  host->roots.resize(host->directory + 1);
  host->roots[host->directory] = wanted.root;
  host->stats.files += wanted.links;
  host->wanted.assign(wanted.ranges.begin(), wanted.ranges.end());
  Pump(*host);
}

void DirectorySync::OnTaken(int index, const wire::FileTaken& taken) {
  Host* host = Find(index);
  if (host == nullptr) return;
  if (taken.bytes > host->bytes_on_way || taken.files > host->files_on_way) {
    return Fail(*host, {ErrorCode::kProtocolError, "FileTaken for more than was sent"});
  }
  host->bytes_on_way -= taken.bytes;
  host->files_on_way -= taken.files;
  Pump(*host);
}

void DirectorySync::OnProblem(int index, const wire::DirectoryProblem& problem) {
  if (Host* host = Find(index)) Fail(*host, ToStatus(problem, source_));
}

void DirectorySync::Pump(Host& host) {
  while (host.file || !host.wanted.empty()) {
    if (host.bytes_on_way + wire::kMaxFileChunk > wire::kDirectoryWindowBytes) return;
    if (host.files_on_way >= wire::kDirectoryWindowFiles) return;
    Status status = host.file ? Status() : OpenNext(host);
    if (status.ok()) status = SendChunk(host);
    if (status.ok()) continue;
    const uint32_t entry = host.file ? host.file->entry : host.wanted.front().first;
    const std::string place =
        fmt::format("{}/{}", directories_[host.directory].directory, EntryOf(host, entry).path);
    return Fail(host, std::move(status).WithContext(ShownText(place, kShownDirectoryBytes)));
  }
  if (host.is_answered && host.bytes_on_way == 0 && host.files_on_way == 0) EndBatch(host);
}

void DirectorySync::EndBatch(Host& host) {
  host.first += host.count;
  if (host.first < directories_[host.directory].listing.entries.size()) return SendList(host);
  host.first = 0;
  if (++host.directory < directories_.size()) return SendList(host);
  Finish(host);
}

Status DirectorySync::OpenNext(Host& host) {
  OpenFile file;
  file.entry = host.wanted.front().first;
  const std::string& path = EntryOf(host, file.entry).path;
  file.fd.Reset(::openat(tops_[host.directory].get(), path.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.fd.is_valid() || ::fstat(file.fd.get(), &file.info) != 0) {
    if (errno == ENOENT) return Changed("it disappeared while the directory was copied", source_);
    return ErrnoStatus("open", errno).WithCode(ErrorCode::kSyncFailed);
  }
  if (!S_ISREG(file.info.st_mode)) return Changed("it is no longer a regular file", source_);
  host.file = std::move(file);
  return {};
}

// Sends the file as it is when opened, with that time and mode. If it changed meanwhile, sends it
// once more.
Status DirectorySync::SendChunk(Host& host) {
  OpenFile& file = *host.file;
  const auto size = static_cast<uint64_t>(file.info.st_size);
  wire::File chunk;
  chunk.entry = file.entry;
  chunk.bytes.resize(std::min<uint64_t>(wire::kMaxFileChunk, size - file.sent));
  size_t read = 0;
  while (read < chunk.bytes.size()) {
    const ssize_t n = ::read(file.fd.get(), chunk.bytes.data() + read, chunk.bytes.size() - read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", errno).WithCode(ErrorCode::kSyncFailed);
    if (n == 0) break;
    read += static_cast<size_t>(n);
  }
  bool has_changed = read < chunk.bytes.size();
  if (!has_changed && file.sent + read == size) {
    struct stat now {};
    has_changed = ::fstat(file.fd.get(), &now) != 0 || !IsSameFile(file.info, now);
    chunk.is_end = true;
  }
  if (has_changed) {
    if (file.is_second_try) return Changed("it keeps changing while being read", source_);
    wire::File restart;
    restart.entry = file.entry;
    restart.is_restart = true;
    handlers_->send(host.index, std::move(restart));
    host.file.reset();
    HVDRAY_RETURN_IF_ERROR(OpenNext(host));
    host.file->is_second_try = true;
    return {};
  }
  file.sent += read;
  host.bytes_on_way += read;
  host.stats.bytes += read;
  if (chunk.is_end) {
    chunk.mode = static_cast<uint16_t>(file.info.st_mode & kFileModeBits);
    chunk.mtime_s = file.info.st_mtim.tv_sec;
    chunk.mtime_ns = static_cast<uint32_t>(file.info.st_mtim.tv_nsec);
    ++host.files_on_way;
    ++host.stats.files;
    host.file.reset();
    wire::EntryRange& range = host.wanted.front();
    ++range.first;
    if (--range.count == 0) host.wanted.pop_front();
  }
  handlers_->send(host.index, std::move(chunk));
  return {};
}

void DirectorySync::Finish(Host& host) {
  host.is_done = true;
  host.stats.time = loop_.Now() - host.began;
  finished_.push_back(&host);
  TellLater();
}

void DirectorySync::Fail(Host& host, Status why) {
  if (failure_) return;
  if (source_ == CopySource::kSync) {
    const std::string& directory = directories_[host.directory].directory;
    why = std::move(why).WithContext(
        fmt::format("--sync {}", ShownText(directory, kShownDirectoryBytes)));
  }
  failure_.emplace(host.index, std::move(why));
  TellLater();
}

// Counts ticks, not time: while ^Z stops us, no host can show progress.
void DirectorySync::CheckProgress() {
  for (const auto& host : hosts_) {
    if (host->is_done) continue;
    host->idle = host->is_idle ? host->idle + tick_ : Duration::zero();
    host->is_idle = true;
    if (host->idle < stall_limit_) continue;
    return Fail(
        *host,
        {ErrorCode::kDeadlineExceeded, "the copy made no progress for " + SecondsText(stall_limit_),
         source_ == CopySource::kSync ? "see what that host is doing, or raise --start-timeout"
                                      : "see what that host is doing"});
  }
}

// Called from the loop, since the callbacks may destroy us.
void DirectorySync::TellLater() {
  if (!tell_later_.is_active()) tell_later_ = loop_.After(Duration::zero(), [this] { Tell(); });
}

void DirectorySync::Tell() {
  const std::weak_ptr<char> alive = alive_;
  const std::shared_ptr<DirectorySync::Handlers> handlers = handlers_;
  tell_later_.Cancel();
  while (!finished_.empty()) {
    Host& host = *finished_.front();
    finished_.pop_front();
    ++finished_count_;
    handlers->on_host_done(host.index, host.stats, std::move(host.roots));
    if (alive.expired()) return;
  }
  if (std::exchange(has_told_all_, failure_ || finished_count_ == hosts_.size())) return;
  if (!has_told_all_) return;
  progress_timer_.Cancel();
  if (failure_) {
    const auto failure = std::move(*failure_);
    failure_.emplace(failure.first, Status());
    handlers->on_failed(failure.first, failure.second);
  } else {
    handlers->on_done();
  }
}

}  // namespace hvdray
