// The files of --output-filename: DIR/rank.<padded rank>/{stdout,stderr}, and of each attempt that
// failed and was followed by another DIR/attempt.<n>/rank.<padded rank>/... Writes whole texts to
// plain files; knows nothing of lines or of the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_OUTPUT_FOLDER_H_
#define HVDRAY_LAUNCHER_REPORT_OUTPUT_FOLDER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// Digits of a rank in folder names: of np - 1, at least one. np counts from 1; elastic ranks
/// beyond it are simply wider (Horovod spec 1.7).
int RankWidth(int np);
/// "rank.07" for np = 20.
std::string RankFolderName(int rank, int np);

class OutputFolder {
 public:
  /// Makes the folder and the empty files of ranks 0..np-1. Errors: kFileUnwritable, also for a
  /// pipe in the place of a file.
  static Result<std::unique_ptr<OutputFolder>> Create(const std::string& path, int np);

  /// The rank is about to start: its file is empty, or made. The second time and later what it
  /// wrote before is moved to DIR/attempt.<n>/, n from 1. A file that was damaged gets another
  /// chance. Errors: as Append().
  Status BeginAttempt(int rank, wire::StreamId stream);
  /// Appends. An error is returned once for each file, as kOutputLost with its path; the file is
  /// then left alone.
  Status Append(int rank, wire::StreamId stream, ByteView text);

  /// Paths of files that are not whole, those of earlier attempts first, then in order of rank.
  std::vector<std::string> damaged() const;
  /// Folders of ranks and attempts in DIR that are of another run: "rank.4", "attempt.1". As they
  /// were when this was made.
  const std::vector<std::string>& strangers() const { return strangers_; }

 private:
  struct File {
    UniqueFd fd;
    bool is_damaged = false;
    bool is_empty = true;
    int attempts = 0;  // that were begun
  };
  using Key = std::pair<int, wire::StreamId>;
  OutputFolder(std::string path, int np) : path_(std::move(path)), np_(np) {}
  std::string PathOf(Key key) const;
  Status MoveToAttempt(Key key, File& file);
  void FindStrangers();
  Status Open(Key key, int flags, File& file);

  std::string path_;
  int np_;
  std::map<Key, File> files_;
  std::vector<std::string> damaged_before_;  // In folders of attempts.
  std::vector<std::string> strangers_;
  std::deque<Key> open_;  // Files that have a descriptor now, oldest first; bounded.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_OUTPUT_FOLDER_H_
