// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/host_source.h"

#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"

namespace hvdray {
namespace {

class FixedHosts final : public HostSource {
 public:
  FixedHosts(Loop& loop, std::vector<HostSlots> hosts) : loop_(loop), hosts_(std::move(hosts)) {}

  Status Start(Handlers handlers) override {
    timer_ = loop_.After(Duration::zero(), [tell = std::move(handlers.on_hosts), hosts = hosts_] {
      tell(hosts, /*is_final=*/true);
    });
    return {};
  }
  void Stop() override { timer_.Cancel(); }

 private:
  Loop& loop_;
  const std::vector<HostSlots> hosts_;
  Watch timer_;
};

constexpr size_t kMaxFileBytes = size_t{16} << 20;
// With a writer that never pauses, read anyway after this many quiet times.
constexpr int kMaxSettles = 10;
// No IN_CREATE: a new file is still empty. Polling notices new symbolic links.
constexpr uint32_t kDirectoryEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                      IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

/// Tells one state of a file from another.
struct Stamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// nullopt: no such file, or not a regular one.
std::optional<Stamp> StampOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return Stamp{info.st_dev, info.st_ino, info.st_size, Nanoseconds(info.st_mtim),
               Nanoseconds(info.st_ctim)};
}

class WatchedHostfile final : public HostSource {
 public:
  WatchedHostfile(Loop& loop, WatchedHostfileOptions options)
      : loop_(loop),
        options_(std::move(options)),
        name_(std::filesystem::path(options_.path).filename()) {}

  Status Start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    // Before the first read, so that nothing is missed between them.
    if (options_.watching == WatchedHostfileOptions::Watching::kEventsAndPolling) OpenEvents();
    Result<std::vector<HostSlots>> hosts = Read();
    if (!hosts.ok()) {
      Stop();
      return std::move(hosts).status();
    }
    poll_timer_ = loop_.Every(options_.poll_interval, [this] { Poll(); });
    settle_timer_ =
        loop_.After(Duration::zero(), [this, first = std::move(hosts).value()] { Tell(first); });
    return {};
  }

  void Stop() override {
    poll_timer_.Cancel();
    settle_timer_.Cancel();
    event_watch_.Cancel();
    inotify_.Reset();
  }

 private:
  void OpenEvents() {
    inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_.is_valid()) {
      // Polling is only slower. The warning is for administrators: they can raise the limit.
      Log(LogLevel::kWarning, "hostfile", "{}; polling {} every {} s instead",
          ErrnoStatus("inotify_init", errno).message(), options_.path,
          Seconds(options_.poll_interval).count());
      return;
    }
    event_watch_ = loop_.OnFd(inotify_.get(), FdEvent::kRead, [this] { OnEvents(); });
    WatchDirectories();
  }

  /// Watches the directory in the path and the file's real directory; a symbolic link makes them
  /// differ.
  void WatchDirectories() {
    if (!inotify_.is_valid()) return;
    const std::filesystem::path path(options_.path);
    std::error_code no_target;
    const std::filesystem::path target = std::filesystem::canonical(path, no_target);
    std::set<std::string> wanted = {path.has_parent_path() ? path.parent_path().string() : "."};
    if (!no_target) wanted.insert(target.parent_path().string());
    if (wanted == directories_) return;
    for (const int watch : watches_) ::inotify_rm_watch(inotify_.get(), watch);
    watches_.clear();
    directories_.clear();
    for (const std::string& directory : wanted) {
      const int watch = ::inotify_add_watch(inotify_.get(), directory.c_str(), kDirectoryEvents);
      if (watch < 0) continue;  // Polling sees it.
      watches_.insert(watch);
      directories_.insert(directory);
    }
  }

  void OnEvents() {
    alignas(inotify_event) std::array<char, 16384> buffer;
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    bool is_ours = false;
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, &buffer[static_cast<size_t>(at)], sizeof event);
      const char* name = &buffer[static_cast<size_t>(at) + sizeof event];
      if (event.len > 0 && name == name_) is_ours = true;
      if ((event.mask & IN_Q_OVERFLOW) != 0) is_ours = true;
      // The kernel also sends IN_IGNORED for watches that we removed ourselves.
      if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0 &&
          watches_.count(event.wd) != 0) {
        directories_.clear();  // The next read sets the watches up again.
        is_ours = true;
      }
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
    // Even for other names: a symbolic link in the path may have changed.
    if (is_ours || StampOf(options_.path) != seen_) ReadWhenQuiet();
  }

  void ReadWhenQuiet() {
    const TimePoint now = loop_.Now();
    if (!settle_timer_.is_active()) settle_limit_ = now + kMaxSettles * options_.settle;
    if (settle_timer_.is_active() && now > settle_limit_) return;
    settle_timer_ = loop_.After(options_.settle, [this] { ReadAndTell(); });
  }

  void Poll() {
    if (directories_.empty()) WatchDirectories();
    const std::optional<Stamp> stamp = StampOf(options_.path);
    const bool is_settled = std::exchange(polled_, stamp) == stamp;
    if (stamp == seen_ || !is_settled || settle_timer_.is_active()) return;
    ReadAndTell();
  }

  Result<std::vector<HostSlots>> Read() {
    WatchDirectories();
    // Before the read, so that a concurrent write yields another stamp.
    seen_ = StampOf(options_.path);
    polled_ = seen_;
    struct stat info {};
    if (::stat(options_.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return Status(ErrorCode::kFileUnreadable,
                    fmt::format("{}: not a regular file", ShownText(options_.path)));
    }
    HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.path, kMaxFileBytes));
    std::string warning;
    Result<std::vector<HostSlots>> hosts = options_.parse(text, &warning);
    if (hosts.ok() && news_.IsNewWarning(warning)) {
      Log(LogLevel::kWarning, "hostfile", "{}", warning);
    }
    return hosts;
  }

  void ReadAndTell() {
    settle_timer_.Cancel();
    Result<std::vector<HostSlots>> hosts = Read();
    if (hosts.ok()) return Tell(std::move(hosts).value());
    if (!news_.IsNews(hosts.status())) return;
    const auto on_failure = handlers_.on_failure;
    on_failure(std::move(hosts).status().WithContext("host file"));
  }

  void Tell(std::vector<HostSlots> hosts) {
    settle_timer_.Cancel();
    if (!news_.IsNews(hosts)) return;
    const auto on_hosts = handlers_.on_hosts;
    on_hosts(std::move(hosts), /*is_final=*/false);
  }

  Loop& loop_;
  WatchedHostfileOptions options_;
  const std::string name_;
  Handlers handlers_;
  HostNews news_;
  UniqueFd inotify_;
  std::set<int> watches_;
  std::set<std::string> directories_;  // watched
  std::optional<Stamp> seen_;          // of the last read
  std::optional<Stamp> polled_;        // of the last poll
  Watch event_watch_;
  Watch poll_timer_;
  Watch settle_timer_;
  TimePoint settle_limit_;  // valid while settle_timer_ runs
};

}  // namespace

bool HostNews::IsNews(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> sorted = hosts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const HostSlots& a, const HostSlots& b) { return a.host < b.host; });
  const bool has_recovered = !std::exchange(failure_, Status()).ok();
  if (hosts_ == sorted) return has_recovered;
  hosts_ = std::move(sorted);
  return true;
}

bool HostNews::IsNews(const Status& failure) {
  if (failure_ == failure) return false;
  failure_ = failure;
  return true;
}

bool HostNews::IsNewWarning(const std::string& warning) {
  return std::exchange(warning_, warning) != warning && !warning.empty();
}

Status ToldHosts::Start(Handlers handlers) {
  handlers_ = std::move(handlers);
  if (last_) timer_ = loop_.After(Duration::zero(), [this] { Report(); });
  return {};
}

void ToldHosts::Stop() {
  timer_.Cancel();
  handlers_ = {};
}

bool ToldHosts::Tell(std::vector<HostSlots> hosts, bool is_final) {
  if (is_final_) return false;
  last_ = std::move(hosts);
  is_final_ = is_final;
  if (handlers_.on_hosts) Report();
  return true;
}

void ToldHosts::Report() {
  timer_.Cancel();
  const bool is_newly_final = is_final_ != std::exchange(was_final_, is_final_);
  if (!news_.IsNews(*last_) && !is_newly_final) return;
  const auto on_hosts = handlers_.on_hosts;
  on_hosts(*last_, is_final_);
}

std::unique_ptr<HostSource> MakeFixedHosts(Loop& loop, std::vector<HostSlots> hosts) {
  return std::make_unique<FixedHosts>(loop, std::move(hosts));
}

std::unique_ptr<HostSource> MakeWatchedHostfile(Loop& loop, WatchedHostfileOptions options) {
  return std::make_unique<WatchedHostfile>(loop, std::move(options));
}

}  // namespace hvdray
