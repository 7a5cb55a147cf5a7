// The messages that copy a folder to a host (--sync). Part of message.h, which is what users
// include; docs/protocol.md is the normative text.
#ifndef HVDRAY_WIRE_FOLDER_H_
#define HVDRAY_WIRE_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray::wire {

inline constexpr size_t kMaxFolderEntries = 2048;          ///< Of one FolderList.
inline constexpr size_t kMaxFolderRaw = size_t{1} << 20;   ///< Bytes of one FolderList's entries.
inline constexpr size_t kMaxFolderPath = 4095;             ///< Of a path, and of what a link says.
inline constexpr size_t kMaxFileChunk = size_t{64} << 10;  ///< Bytes of one File.
inline constexpr size_t kFolderWindowBytes = size_t{1} << 20;  ///< Of files on the way to a host,
inline constexpr size_t kFolderWindowFiles = 256;              ///< and how many of them.

/// Names that begin so are an agent's unfinished files: no list has them.
inline constexpr std::string_view kFolderTemporaryPrefix = ".hvdray-sync.";

/// Wire format.
enum class FolderEntryKind : uint8_t {
  kFile = 0,
  kFolder = 1,      ///< To be there, and to take files until kFolderMode has come.
  kLink = 2,        ///< A symbolic link.
  kFolderMode = 3,  ///< Behind all else in it: a mode that forbids its owner something.
};

/// One file, folder or link of the list.
struct FolderEntry {
  FolderEntryKind kind = FolderEntryKind::kFile;
  uint16_t mode = 0;      ///< 0 to 0777.
  uint64_t size = 0;      ///< Of a file.
  int64_t mtime_s = 0;    ///< Of a file.
  uint32_t mtime_ns = 0;  ///< 0 to 999999999.
  std::string path;       ///< "a/b", see IsPlainPath().
  std::string link;       ///< What a link says.
  bool operator==(const FolderEntry&) const = default;
};

/// Launcher to agent: some entries of a folder. The next one comes when the agent has all that it
/// wanted of these.
struct FolderList {
  uint32_t folder = 0;  ///< Counts the folders of a job.
  std::string target;   ///< Absolute, or in the home folder; empty: that itself.
  std::vector<FolderEntry> entries;
  bool operator==(const FolderList&) const = default;
};

/// Entries of a list, by index.
struct EntryRange {
  uint32_t first = 0;
  uint32_t count = 1;
  bool operator==(const EntryRange&) const = default;
};

/// Agent to launcher, once for a FolderList: the files that differ there. Rising; none overlaps
/// another.
struct FolderWanted {
  std::vector<EntryRange> ranges;
  uint32_t links = 0;  ///< Links that were made at once.
  std::string root;    ///< Where the target lies there: absolute.
  bool operator==(const FolderWanted&) const = default;
};

/// Launcher to agent: the next bytes of a file that was wanted, in the order of the list.
struct File {
  uint32_t entry = 0;
  bool is_end = false;      ///< These are the last: what follows in the struct is the file's.
  bool is_restart = false;  ///< What came of it is void: it changed while it was read.
  uint16_t mode = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  std::string bytes;
  bool operator==(const File&) const = default;
};

/// Agent to launcher: since the last one so many files were put in place, and bytes written.
struct FileTaken {
  uint32_t files = 0;
  uint32_t bytes = 0;
  bool operator==(const FileTaken&) const = default;
};

/// Agent to launcher: it cannot go on with any folder.
struct FolderProblem {
  int32_t error = 0;  ///< errno; 0: `step` says it all.
  std::string step;   ///< "write", "is a folder there"
  std::string path;   ///< Absolute.
  bool operator==(const FolderProblem&) const = default;
};

/// Relative, of at most kMaxFolderPath bytes, without NUL, and no part of it is empty, "." or "..".
bool IsPlainPath(std::string_view path);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_FOLDER_H_
