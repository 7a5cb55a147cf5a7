// SPDX-License-Identifier: Apache-2.0
// Copies the directories of --sync to all other hosts at once, each at its own pace, over the links
// of their agents: sends a list, gets the entries that the host wants, sends those files.
// docs/adr/0009-directory-sync.md.
#ifndef HVDRAY_LAUNCHER_ENGINE_DIRECTORY_SYNC_H_
#define HVDRAY_LAUNCHER_ENGINE_DIRECTORY_SYNC_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "launcher/driver/events.h"
#include "launcher/engine/sync_plan.h"
#include "wire/message.h"

namespace hvdray {

/// Where the user has named the directories, and other places for them.
enum class CopySource : uint8_t { kSync, kFileMounts };

/// Has at most wire::kDirectoryWindowBytes in flight to each host; reads the files again for each
/// host. Threads: the loop's.
class DirectorySync {
 public:
  /// Called from the loop; each callback may destroy the DirectorySync.
  struct Handlers {
    /// Sends a message to the host's agent.
    std::function<void(int host, wire::Body body)> send;
    /// A host has everything. `roots`: the absolute paths of the copies there.
    std::function<void(int host, SyncStats stats, std::vector<std::string> roots)> on_host_done;
    /// Once, as the last callback. Errors: kSyncFailed, kOutOfResources, kDeadlineExceeded,
    /// kProtocolError; the message names file and, with kSync, directory, but not the host.
    std::function<void(int host, Status why)> on_failed;
    /// Once, after on_host_done of the last host.
    std::function<void()> on_done;
  };

  /// `hosts`: indices, at least one. `directories`: at least one; outlives this. `stall_limit`: how
  /// long a host may make no progress.
  DirectorySync(Loop& loop, const std::vector<int>& hosts,
                std::span<const SyncedDirectory> directories, Duration stall_limit,
                Handlers handlers, CopySource source = CopySource::kSync);
  ~DirectorySync();
  DirectorySync(const DirectorySync&) = delete;
  DirectorySync& operator=(const DirectorySync&) = delete;

  /// Call once.
  void Start();
  /// True: the message was an agent's answer to this copy; ignored from hosts that have everything.
  bool OnMessage(int host, const wire::Message& message);
  void OnWanted(int host, const wire::DirectoryWanted& wanted);
  void OnTaken(int host, const wire::FileTaken& taken);
  void OnProblem(int host, const wire::DirectoryProblem& problem);

 private:
  struct OpenFile;
  struct Host;
  Host* Find(int host);
  void SendList(Host& host);
  void Pump(Host& host);
  void EndBatch(Host& host);
  Status SendChunk(Host& host);
  Status OpenNext(Host& host);
  void Finish(Host& host);
  void Fail(Host& host, Status why);
  void CheckProgress();
  void TellLater();
  void Tell();
  const wire::DirectoryEntry& EntryOf(const Host& host, uint32_t index) const;

  Loop& loop_;
  const CopySource source_;
  std::span<const SyncedDirectory> directories_;
  std::vector<UniqueFd> tops_;      // of the directories
  std::vector<Trustees> trustees_;  // likewise
  const Duration stall_limit_;
  const Duration tick_;
  const std::shared_ptr<Handlers> handlers_;  // shared with the one that runs
  std::vector<std::unique_ptr<Host>> hosts_;
  std::deque<Host*> finished_;  // not reported yet
  size_t finished_count_ = 0;
  std::optional<std::pair<int, Status>> failure_;
  bool has_told_all_ = false;
  Watch tell_later_;
  Watch progress_timer_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // not shared: only watched
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DIRECTORY_SYNC_H_
