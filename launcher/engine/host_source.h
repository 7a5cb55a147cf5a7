// SPDX-License-Identifier: Apache-2.0
// Where the hosts of an elastic job come from: a fixed list, a watched file, a script, a scheduler.
// A source only reports the hosts it finds; the driver decides which of them to use.
#ifndef HVDRAY_LAUNCHER_ENGINE_HOST_SOURCE_H_
#define HVDRAY_LAUNCHER_ENGINE_HOST_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/status.h"

namespace hvdray {

/// Reports hosts until it is stopped. Threads: the loop's. Its handlers are called repeatedly,
/// never from within Start() or Stop(), and may destroy it all the same.
class HostSource {
 public:
  struct Handlers {
    /// All present hosts, in the order of the source, without duplicates. Called for the first
    /// list, for each list that differs in more than its order, and for the first list after a
    /// failure. is_final: the list never changes again.
    std::function<void(std::vector<HostSlots> hosts, bool is_final)> on_hosts;
    /// The source failed, for a reason that differs from the last one; it keeps trying. Before the
    /// first on_hosts the job has no hosts at all.
    std::function<void(Status why)> on_failure;
  };
  virtual ~HostSource() = default;
  /// Call once. Errors: problems that show before the first query; no handler is called then.
  virtual Status Start(Handlers handlers) = 0;
  /// No handler is called afterwards. Also ends the processes that the source has started.
  virtual void Stop() = 0;
};

/// Parses a list of hosts from a file or a script's output. The result must not contain duplicates.
/// `*warning`: left empty, or one line about input that was accepted although it looks wrong.
using ParseHosts =
    std::function<Result<std::vector<HostSlots>>(std::string_view text, std::string* warning)>;

// Decides which answers of a source are worth reporting.

/// Remembers the last answer; each call below compares with it and replaces it. Pure.
class HostNews {
 public:
  /// True for the first list, for other hosts, slots or addresses, and for any list after a
  /// failure. The order does not count: many scripts print a set.
  bool IsNews(const std::vector<HostSlots>& hosts);
  /// True for the first failure after a list, and for a failure with another reason.
  bool IsNews(const Status& failure);
  /// True for a warning that differs from the previous one. Empty (no warning) is never new.
  bool IsNewWarning(const std::string& warning);

 private:
  std::optional<std::vector<HostSlots>> hosts_;  // by name
  Status failure_;                               // ok: the last answer was a list
  std::string warning_;
};

// Hosts that never change: -H or a host file with --min-np. Only failures cause resets then.

/// Reports the list once, as the final one. The loop outlives the source.
std::unique_ptr<HostSource> MakeFixedHosts(Loop& loop, std::vector<HostSlots> hosts);

// Hosts that somebody else finds, and tells: the client of `hvdray serve`.

/// Reports what Tell() says, if it is news; before Start() it keeps the last list.
class ToldHosts final : public HostSource {
 public:
  explicit ToldHosts(Loop& loop) : loop_(loop) {}
  Status Start(Handlers handlers) override;
  void Stop() override;
  /// All present hosts, without duplicates; reported at once, after Start(). False: the list before
  /// was the final one, and holds.
  bool Tell(std::vector<HostSlots> hosts, bool is_final);

 private:
  void Report();

  Loop& loop_;
  Handlers handlers_;
  HostNews news_;
  std::optional<std::vector<HostSlots>> last_;
  bool is_final_ = false;
  bool was_final_ = false;  // as reported
  Watch timer_;
};

// A host file that may change while the job runs.

struct WatchedHostfileOptions {
  /// kPolling: for tests; network file systems often deliver no events.
  enum class Watching : uint8_t { kEventsAndPolling, kPolling };
  std::string path;
  ParseHosts parse;
  /// Also stat the file this often, for file systems that send no events for writes from other
  /// machines. A changed file is read after two equal stats in a row.
  Duration poll_interval{std::chrono::seconds(1)};
  /// Quiet time after the last event, so that a shell's line-by-line appends count as one change.
  Duration settle{std::chrono::milliseconds(100)};
  Watching watching = Watching::kEventsAndPolling;
};

/// Reports the list when the file was written and closed or replaced by rename, or when a symbolic
/// link in its path changed. A file that is missing, unreadable or malformed is a failure
/// (kFileUnreadable, kSpecInvalid); the last list stays valid then. Users should write a new file
/// and rename it. Warnings of `parse` are logged.
/// Start() returns the same errors for the current file; it blocks for the read. The loop outlives
/// the source.
std::unique_ptr<HostSource> MakeWatchedHostfile(Loop& loop, WatchedHostfileOptions options);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_HOST_SOURCE_H_
