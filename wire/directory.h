// SPDX-License-Identifier: Apache-2.0
// The messages that copy a directory to a host (--sync). Part of message.h; values.
// docs/protocol.md is normative.
#ifndef HVDRAY_WIRE_DIRECTORY_H_
#define HVDRAY_WIRE_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_walk.h"

namespace hvdray::wire {

/// Entries per DirectoryList, and the bytes of its raw part.
inline constexpr size_t kMaxDirectoryEntries = 2048;
inline constexpr size_t kMaxDirectoryRaw = size_t{1} << 20;
/// Bytes of a path, and of a link's target.
inline constexpr size_t kMaxDirectoryPath = 4095;
/// Bytes per File.
inline constexpr size_t kMaxFileChunk = size_t{64} << 10;
/// How much may be in flight to a host: bytes of files, and number of files.
inline constexpr size_t kDirectoryWindowBytes = size_t{1} << 20;
inline constexpr size_t kDirectoryWindowFiles = 256;

/// Prefix of an agent's unfinished files. No list contains such names.
inline constexpr std::string_view kDirectoryTemporaryPrefix = ".hvdray-sync.";

/// The values are wire format.
enum class DirectoryEntryKind : uint8_t {
  kFile = 0,
  kDirectory = 1,      ///< Created writable; kDirectoryMode sets its final mode if that is not.
  kLink = 2,           ///< A symbolic link.
  kDirectoryMode = 3,  ///< After its contents: a mode that restricts its owner.
  kFileOrInto = 4,     ///< A file; where a directory has its path, `link` in that directory.
};

constexpr bool HasContents(DirectoryEntryKind kind) {
  return kind == DirectoryEntryKind::kFile || kind == DirectoryEntryKind::kFileOrInto;
}

/// One file, directory or link of the list.
struct DirectoryEntry {
  DirectoryEntryKind kind = DirectoryEntryKind::kFile;
  uint16_t mode = 0;      ///< 0 to 0777.
  uint64_t size = 0;      ///< Bytes; files only.
  int64_t mtime_s = 0;    ///< Since 1970; files only.
  uint32_t mtime_ns = 0;  ///< 0 to 999999999.
  std::string path;       ///< "a/b"; must satisfy IsPlainPath().
  std::string link;       ///< Target of a link; name of a kFileOrInto; empty for others.
  bool operator==(const DirectoryEntry&) const = default;
};

/// Launcher to agent: some entries of a directory. The next list follows once the agent has all
/// files that it wanted from this one.
struct DirectoryList {
  uint32_t directory = 0;  ///< Index of the directory in the job, from 0.
  std::string target;      ///< Absolute, or relative to the home directory (empty).
  Trustees trustees;       ///< Of the directory on the launcher's machine: they are, there too.
  std::vector<DirectoryEntry> entries;
  bool operator==(const DirectoryList&) const = default;
};

/// Entries of a list, by index.
struct EntryRange {
  uint32_t first = 0;
  uint32_t count = 1;
  bool operator==(const EntryRange&) const = default;
};

/// Agent to launcher, once per DirectoryList: the files that differ on this host, in ascending
/// ranges that do not overlap.
struct DirectoryWanted {
  std::vector<EntryRange> ranges;
  uint32_t links = 0;  ///< Number of links created.
  std::string root;    ///< The target on this host, absolute.
  bool operator==(const DirectoryWanted&) const = default;
};

/// Launcher to agent: the next bytes of a wanted file. Files come in the order of the list.
struct File {
  uint32_t entry = 0;
  bool is_end = false;      ///< The last bytes: mode and mtime are those of the file.
  bool is_restart = false;  ///< Discard what came before: the file changed while it was read.
  uint16_t mode = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  std::string bytes;
  bool operator==(const File&) const = default;
};

/// Agent to launcher: files completed and bytes written since the last FileTaken.
struct FileTaken {
  uint32_t files = 0;
  uint32_t bytes = 0;
  bool operator==(const FileTaken&) const = default;
};

/// Agent to launcher: copying failed, for all directories.
struct DirectoryProblem {
  int32_t error = 0;  ///< errno; 0: `step` says everything.
  std::string step;   ///< "write", "is a directory there"
  std::string path;   ///< Absolute.
  bool operator==(const DirectoryProblem&) const = default;
};

/// Whether `path` is relative, at most kMaxDirectoryPath bytes long and free of NULs, and has no
/// part that is empty, "." or "..".
bool IsPlainPath(std::string_view path);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_DIRECTORY_H_
