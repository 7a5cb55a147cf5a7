// Copies the folders of --sync to all other hosts at once, each at its own pace, over the links of
// their agents: a list, what the host wants of it, those files. docs/adr/0009.
#ifndef HVDRAY_LAUNCHER_ENGINE_FOLDER_SYNC_H_
#define HVDRAY_LAUNCHER_ENGINE_FOLDER_SYNC_H_

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
#include "launcher/driver/sync_stats.h"
#include "launcher/engine/sync_plan.h"
#include "wire/message.h"

namespace hvdray {

/// What goes on is told from the loop; each callback may destroy the FolderSync.
struct FolderSyncHandlers {
  std::function<void(int host, wire::Body body)> send;
  /// A host has everything. roots: where the folders lie there, absolute.
  std::function<void(int host, SyncStats stats, std::vector<std::string> roots)> on_host_done;
  /// Once, and nothing else after it. Errors: kSyncFailed, kOutOfResources, kDeadlineExceeded,
  /// kProtocolError; the message names folder and file, but not the host.
  std::function<void(int host, Status why)> on_failed;
  /// Once, behind on_host_done of the last host.
  std::function<void()> on_done;
};

/// Threads: the loop's. Keeps at most wire::kFolderWindowBytes on the way to each host; reads the
/// files anew for each.
class FolderSync {
 public:
  /// hosts: indices, at least one. folders: at least one; outlives this. stall_limit: for so long a
  /// host may do nothing.
  FolderSync(Loop& loop, const std::vector<int>& hosts, std::span<const SyncedFolder> folders,
             Duration stall_limit, FolderSyncHandlers handlers);
  ~FolderSync();
  FolderSync(const FolderSync&) = delete;
  FolderSync& operator=(const FolderSync&) = delete;

  /// Call once.
  void Start();
  /// What the agents say. Ignored from hosts that have everything.
  void OnWanted(int host, const wire::FolderWanted& wanted);
  void OnTaken(int host, const wire::FileTaken& taken);
  void OnProblem(int host, const wire::FolderProblem& problem);

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
  const wire::FolderEntry& EntryOf(const Host& host, uint32_t index) const;

  Loop& loop_;
  std::span<const SyncedFolder> folders_;
  std::vector<UniqueFd> tops_;  // of the folders
  const Duration stall_limit_;
  const Duration tick_;
  const std::shared_ptr<FolderSyncHandlers> handlers_;  // shared with the one that runs
  std::vector<std::unique_ptr<Host>> hosts_;
  std::deque<Host*> finished_;  // not told yet
  size_t finished_count_ = 0;
  std::optional<std::pair<int, Status>> failure_;
  bool has_told_all_ = false;
  Watch tell_later_;
  Watch progress_timer_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // shared with no one: only watched
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FOLDER_SYNC_H_
