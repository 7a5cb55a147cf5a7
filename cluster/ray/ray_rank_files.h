// SPDX-License-Identifier: Apache-2.0
// The files of --output-filename of a job on Ray, written locally from the driver's stream while
// the job runs.
#ifndef HVDRAY_CLUSTER_RAY_RAY_RANK_FILES_H_
#define HVDRAY_CLUSTER_RAY_RAY_RANK_FILES_H_

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "base/status.h"
#include "launcher/report/output_directory.h"
#include "launcher/report/stream_file.h"

namespace hvdray {

/// Writes block. Threads: one.
class RayRankFiles {
 public:
  /// `path` empty: not asked for; writes nothing.
  explicit RayRankFiles(std::string path) : path_(std::move(path)) {}

  void OnPlaces(PlacesOfRecord record);
  void OnOutput(RecordKind kind, ByteView bytes);

  /// The first failed write. Errors: kOutputLost.
  const Status& lost() const { return lost_; }

 private:
  using Places = std::deque<RecordPlace>;
  Places& PlacesOf(RecordKind kind) { return places_.at(kind == RecordKind::kStdout ? 0 : 1); }
  void EmptyFiles(RecordKind kind);
  void Note(Status status);

  const std::string path_;
  std::unique_ptr<OutputDirectory> directory_;
  std::array<Places, 2> places_;  // of the bytes to come: stdout, stderr
  Status lost_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_RANK_FILES_H_
