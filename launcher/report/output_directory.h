// SPDX-License-Identifier: Apache-2.0
// The files of --output-filename: DIR/rank.<padded rank>/{stdout,stderr}; for each attempt before a
// restart DIR/attempt.<n>/rank.<padded rank>/... Writes text to plain files; knows nothing of lines
// or of the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_OUTPUT_DIRECTORY_H_
#define HVDRAY_LAUNCHER_REPORT_OUTPUT_DIRECTORY_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// Digits of a rank in directory names, as horovodrun pads them: those of np - 1, at least one.
/// `np` >= 1; higher ranks of elastic jobs are wider.
int RankWidth(int np);
/// "rank.07" for np = 20.
std::string RankDirectoryName(int rank, int np);

/// Keeps a bounded number of files open. Writes block. Threads: one.
class OutputDirectory {
 public:
  /// Creates the directory and the empty files of ranks 0..np-1. Errors: kFileUnwritable, also if a
  /// pipe or a link is there instead of a file, or another user's link on the way.
  static Result<std::unique_ptr<OutputDirectory>> Create(const std::string& path, int np);

  /// The rank is about to start: empties or creates its file. From the second call on, moves the
  /// earlier output to DIR/attempt.<n>/, n from 1. Retries a damaged file. Errors: as Append().
  Status BeginAttempt(int rank, wire::StreamId stream);
  /// Appends to the rank's file. Returns an error once per file, kOutputLost with its path, and
  /// then ignores that file.
  Status Append(int rank, wire::StreamId stream, ByteView text);

  /// Paths of incomplete files: earlier attempts first, then by rank.
  std::vector<std::string> damaged() const;
  /// Directories of ranks and attempts in DIR left by another run: "rank.4", "attempt.1". As found
  /// by Create().
  const std::vector<std::string>& foreign_directories() const { return foreign_directories_; }

 private:
  struct File {
    UniqueFd fd;
    bool is_damaged = false;
    bool is_empty = true;
    int attempts = 0;  // begun so far
  };
  using Key = std::pair<int, wire::StreamId>;
  OutputDirectory(std::string path, int np) : path_(std::move(path)), np_(np) {}
  std::string PathOf(Key key) const;
  Status MoveToAttempt(Key key, File& file);
  void FindStrangers();
  enum class Content : uint8_t { kKept, kEmptied };
  Status Open(Key key, Content content, File& file);

  std::string path_;
  int np_;
  std::map<Key, File> files_;
  std::vector<std::string> damaged_before_;  // In the directories of attempts.
  std::vector<std::string> foreign_directories_;
  int earlier_attempts_ = 0;  // The highest number that another run left.
  std::deque<Key> open_;      // Files with an open descriptor, oldest first; bounded.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_OUTPUT_DIRECTORY_H_
