// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_rank_files.h"

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

wire::StreamId StreamOf(RecordKind kind) {
  return kind == RecordKind::kStdout ? wire::StreamId::kStdout : wire::StreamId::kStderr;
}

}  // namespace

void RayRankFiles::OnPlaces(PlacesOfRecord record) {
  if (path_.empty()) return;
  if (directory_ == nullptr && lost_.ok()) {
    auto directory = OutputDirectory::Create(path_, record.np);
    if (directory.ok()) {
      directory_ = std::move(directory).value();
    } else {
      Note(std::move(directory).status().WithCode(ErrorCode::kOutputLost));
    }
  }
  if (directory_ == nullptr) return;
  Places& places = PlacesOf(record.stream);
  places.insert(places.end(), record.places.begin(), record.places.end());
  EmptyFiles(record.stream);
}

void RayRankFiles::OnOutput(RecordKind kind, ByteView bytes) {
  Places& places = PlacesOf(kind);
  while (!bytes.empty() && !places.empty()) {
    RecordPlace& place = places.front();
    const auto taken = static_cast<size_t>(std::min<uint64_t>(place.length, bytes.size()));
    if (place.rank != RecordPlace::kNobody) {
      Note(directory_->Append(place.rank, StreamOf(kind), bytes.substr(0, taken)));
    }
    bytes.remove_prefix(taken);
    place.length -= taken;
    if (place.length == 0) places.pop_front();
    EmptyFiles(kind);
  }
}

void RayRankFiles::EmptyFiles(RecordKind kind) {
  Places& places = PlacesOf(kind);
  while (!places.empty() && places.front().is_emptied) {
    Note(directory_->BeginAttempt(places.front().rank, StreamOf(kind)));
    places.pop_front();
  }
}

void RayRankFiles::Note(Status status) {
  if (!status.ok() && lost_.ok()) lost_ = std::move(status);
}

}  // namespace hvdray
