// Takes a folder from the launcher (--sync): says which files differ here, writes them beside their
// places and renames them. Never leaves the target through a link, never leaves half a file.
#ifndef HVDRAY_AGENT_FOLDER_RECEIVER_H_
#define HVDRAY_AGENT_FOLDER_RECEIVER_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// Blocks for as long as the file system does. Threads: one caller. Destroying it removes what is
/// unfinished.
class FolderReceiver {
 public:
  /// home: where targets that are not absolute lie; empty: the user has none.
  explicit FolderReceiver(std::string home);
  ~FolderReceiver();
  FolderReceiver(const FolderReceiver&) = delete;
  FolderReceiver& operator=(const FolderReceiver&) = delete;

  /// Makes folders and links, mends modes and says which files are wanted. The answer is a
  /// FolderWanted or a FolderProblem. Errors: kProtocolError.
  Result<wire::Body> OnList(wire::FolderList&& list);

  /// Writes. The answer, if there is one now, is a FileTaken or a FolderProblem. Errors:
  /// kProtocolError, for a file that was not wanted or is out of turn.
  Result<std::optional<wire::Body>> OnFile(const wire::File& file);

 private:
  enum class Need : uint8_t { kNothing, kFile, kLink };
  bool OpenRoot(const std::string& target);
  bool Visit(const wire::FolderEntry& entry, Need& need);
  bool VisitFile(const wire::FolderEntry& entry, Need& need);
  bool VisitLink(const wire::FolderEntry& entry, Need& need);
  bool MakeFolder(const wire::FolderEntry& entry);
  bool SetFolderMode(const wire::FolderEntry& entry);
  bool MakeLink(const wire::FolderEntry& entry);
  bool OpenParent(const std::string& path);
  bool OpenFolderAt(int parent, const std::string& name, UniqueFd& out);
  bool OpenTemporary();
  bool Append(const wire::File& file);
  bool FinishFile(const wire::File& file);
  bool Rename(const std::string& path);
  void DropTemporary();
  std::string NextTemporaryName();
  /// Notes what went wrong at `path` (in the target; empty: the target). Returns false.
  bool Fail(const char* step, int error, const std::string& path);

  const std::string home_;
  const std::string temporary_prefix_;
  uint64_t temporaries_ = 0;
  std::optional<uint32_t> folder_;  // whose root is open
  std::string root_;
  UniqueFd root_fd_;
  std::string parent_;  // in the target; its descriptor:
  UniqueFd parent_fd_;
  std::vector<wire::FolderEntry> entries_;  // of the list at hand
  std::vector<uint32_t> wanted_;            // of them, in the order in which they come
  size_t next_ = 0;                         // in wanted_
  UniqueFd file_;                           // the temporary of wanted_[next_]...
  std::string temporary_;                   // ...and its name; empty: there is none
  wire::FileTaken taken_;                   // not told yet
  std::optional<wire::FolderProblem> problem_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_FOLDER_RECEIVER_H_
