// The files of --output-filename: DIR/rank.<padded rank>/{stdout,stderr}. Writes whole texts to
// plain files; knows nothing of lines or of the loop.
#ifndef HVDRAY_LAUNCHER_OUTPUT_OUTPUT_FOLDER_H_
#define HVDRAY_LAUNCHER_OUTPUT_OUTPUT_FOLDER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/wire/message.h"

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

  /// Empties a file whose rank is about to start again, or makes it. One that was damaged gets
  /// another chance. Errors: as Append().
  Status Truncate(int rank, wire::StreamId stream);
  /// Appends. An error is returned once for each file, as kOutputLost with its path; the file is
  /// then left alone.
  Status Append(int rank, wire::StreamId stream, ByteView text);

  /// Paths of files that are not whole, in order of rank.
  std::vector<std::string> damaged() const;

 private:
  struct File {
    UniqueFd fd;
    bool is_damaged = false;
    bool is_empty = true;
  };
  using Key = std::pair<int, wire::StreamId>;
  OutputFolder(std::string path, int np) : path_(std::move(path)), np_(np) {}
  std::string PathOf(Key key) const;
  Status Open(Key key, int flags, File& file);

  std::string path_;
  int np_;
  std::map<Key, File> files_;
  std::deque<Key> open_;  // Files that have a descriptor now, oldest first; bounded.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_OUTPUT_OUTPUT_FOLDER_H_
