// SPDX-License-Identifier: Apache-2.0
// The messages that copy a directory to a host (--sync). Part of message.h, which is what users
// include; docs/protocol.md is the normative text.
#ifndef HVDRAY_WIRE_DIRECTORY_H_
#define HVDRAY_WIRE_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray::wire {

inline constexpr size_t kMaxDirectoryEntries = 2048;  ///< Of one DirectoryList.
inline constexpr size_t kMaxDirectoryRaw = size_t{1}
                                           << 20;  ///< Bytes of one DirectoryList's entries.
inline constexpr size_t kMaxDirectoryPath = 4095;  ///< Of a path, and of what a link says.
inline constexpr size_t kMaxFileChunk = size_t{64} << 10;  ///< Bytes of one File.
inline constexpr size_t kDirectoryWindowBytes = size_t{1}
                                                << 20;  ///< Of files on the way to a host,
inline constexpr size_t kDirectoryWindowFiles = 256;    ///< and how many of them.

/// Names that begin so are an agent's unfinished files: no list has them.
inline constexpr std::string_view kDirectoryTemporaryPrefix = ".hvdray-sync.";

/// Wire format.
enum class DirectoryEntryKind : uint8_t {
  kFile = 0,
  kDirectory = 1,      ///< To be there, and to take files until kDirectoryMode has come.
  kLink = 2,           ///< A symbolic link.
  kDirectoryMode = 3,  ///< Behind all else in it: a mode that forbids its owner something.
};

/// One file, directory or link of the list.
struct DirectoryEntry {
  DirectoryEntryKind kind = DirectoryEntryKind::kFile;
  uint16_t mode = 0;      ///< 0 to 0777.
  uint64_t size = 0;      ///< Of a file.
  int64_t mtime_s = 0;    ///< Of a file.
  uint32_t mtime_ns = 0;  ///< 0 to 999999999.
  std::string path;       ///< "a/b", see IsPlainPath().
  std::string link;       ///< What a link says.
  bool operator==(const DirectoryEntry&) const = default;
};

/// Launcher to agent: some entries of a directory. The next one comes when the agent has all that
/// it wanted of these.
struct DirectoryList {
  uint32_t directory = 0;  ///< Counts the directories of a job.
  std::string target;      ///< Absolute, or in the home directory; empty: that itself.
  std::vector<DirectoryEntry> entries;
  bool operator==(const DirectoryList&) const = default;
};

/// Entries of a list, by index.
struct EntryRange {
  uint32_t first = 0;
  uint32_t count = 1;
  bool operator==(const EntryRange&) const = default;
};

/// Agent to launcher, once for a DirectoryList: the files that differ there. Rising; none overlaps
/// another.
struct DirectoryWanted {
  std::vector<EntryRange> ranges;
  uint32_t links = 0;  ///< Links that were made at once.
  std::string root;    ///< Where the target lies there: absolute.
  bool operator==(const DirectoryWanted&) const = default;
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

/// Agent to launcher: it cannot go on with any directory.
struct DirectoryProblem {
  int32_t error = 0;  ///< errno; 0: `step` says it all.
  std::string step;   ///< "write", "is a directory there"
  std::string path;   ///< Absolute.
  bool operator==(const DirectoryProblem&) const = default;
};

/// Relative, of at most kMaxDirectoryPath bytes, without NUL, and no part of it is empty, "." or
/// "..".
bool IsPlainPath(std::string_view path);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_DIRECTORY_H_
