// SPDX-License-Identifier: Apache-2.0
// Receives a directory from the launcher (--sync): reports which files differ here, writes them to
// temporary files and renames those. Never follows a link out of the target, never leaves a partial
// file, never uses a directory that a user who is not trusted owns or may write to.
// docs/protocol.md, "DirectoryList"; docs/adr/0009-directory-sync.md.
#ifndef HVDRAY_AGENT_DIRECTORY_RECEIVER_H_
#define HVDRAY_AGENT_DIRECTORY_RECEIVER_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// Handles one directory after the other. Blocks as long as the file system does. Threads: one.
/// Destroying it removes the unfinished file.
class DirectoryReceiver {
 public:
  /// `home`: the base of relative targets; empty: the user has no home directory.
  explicit DirectoryReceiver(std::string home);
  ~DirectoryReceiver();
  DirectoryReceiver(const DirectoryReceiver&) = delete;
  DirectoryReceiver& operator=(const DirectoryReceiver&) = delete;

  /// Creates directories and links, corrects modes and requests the files that differ. Returns a
  /// DirectoryWanted or a DirectoryProblem. Errors: kProtocolError, for a list before the last
  /// one's files have all arrived.
  Result<wire::Body> OnList(wire::DirectoryList&& list);

  /// Writes a part of the next requested file. Returns a FileTaken or a DirectoryProblem when one
  /// is due. Errors: kProtocolError, for a file that was not requested or is out of turn.
  Result<std::optional<wire::Body>> OnFile(const wire::File& file);

 private:
  enum class Need : uint8_t { kNothing, kFile, kLink };
  bool OpenRoot(const std::string& target, const Trustees& trustees);
  /// Gives a kFileOrInto the path that it has here.
  bool Visit(wire::DirectoryEntry& entry, Need& need);
  bool VisitFile(const wire::DirectoryEntry& entry, Need& need);
  bool VisitLink(const wire::DirectoryEntry& entry, Need& need);
  bool MakeDirectory(const wire::DirectoryEntry& entry);
  bool SetDirectoryMode(const wire::DirectoryEntry& entry);
  bool MakeLink(const wire::DirectoryEntry& entry);
  bool OpenParent(const std::string& path);
  UniqueFd OpenEntry(const std::string& path) const;
  bool OpenTemporary();
  bool Append(const wire::File& file);
  bool FinishFile(const wire::File& file);
  bool Rename(const std::string& path);
  void DropTemporary();
  std::string NextTemporaryName();
  /// Records the failed step at `path` (relative to the target; empty: the target itself). Returns
  /// false.
  bool Fail(const char* step, int error, const std::string& path);
  bool FailAt(const char* step, int error, std::string place);

  const std::string home_;
  const std::string temporary_prefix_;
  uint64_t temporaries_ = 0;
  std::optional<uint32_t> directory_;  // The number of the directory whose root is open.
  bool is_one_file_ = false;           // As its first list says.
  std::string root_;
  UniqueFd root_fd_;
  Trustees root_trustees_;  // Who may own and write to what is in the target.
  std::string parent_;      // The directory of the last entry, relative to the target.
  UniqueFd parent_fd_;
  Trustees parent_trustees_;                   // As root_trustees_.
  std::vector<wire::DirectoryEntry> entries_;  // The present list.
  std::vector<uint32_t> wanted_;               // Requested entries, in the order of their arrival.
  size_t next_ = 0;                            // Index into wanted_.
  UniqueFd file_;                              // The temporary file of wanted_[next_].
  std::string temporary_;                      // Its name; empty: no temporary file.
  wire::FileTaken taken_;                      // Not reported yet.
  std::optional<wire::DirectoryProblem> problem_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_DIRECTORY_RECEIVER_H_
