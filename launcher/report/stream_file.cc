// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/stream_file.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"
#include "launcher/job/placement.h"

namespace hvdray {

std::string FormatRecordHeader(RecordKind kind, size_t length) {
  std::string header(1, static_cast<char>(kind));
  for (int shift = 0; shift < 32; shift += 8) {
    header += static_cast<char>((length >> shift) & 0xff);
  }
  return header;
}

int AppendRecord(int fd, RecordKind kind, ByteView bytes, ByteView places) {
  std::string header;
  if (!places.empty()) {
    header = FormatRecordHeader(RecordKind::kPlaces, places.size());
    header.append(places);
  }
  header += FormatRecordHeader(kind, bytes.size());
  const off_t begin = ::lseek(fd, 0, SEEK_END);
  if (begin < 0) return errno;
  size_t written = 0;
  while (written < header.size() + bytes.size()) {
    std::array<iovec, 2> parts{};
    const size_t of_header = std::min(written, header.size());
    const size_t of_bytes = written - of_header;
    parts[0] = {header.data() + of_header, header.size() - of_header};
    // writev() only reads through the pointer.
    parts[1] = {const_cast<char*>(bytes.data()) + of_bytes, bytes.size() - of_bytes};
    const ssize_t n = ::writev(fd, parts.data(), static_cast<int>(parts.size()));
    if (n >= 0) {
      written += static_cast<size_t>(n);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (::ftruncate(fd, begin) == 0) ::lseek(fd, begin, SEEK_SET);
    return error;
  }
  return 0;
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kHeadBytes = 5;
constexpr size_t kPlaceBytes = 8;
constexpr size_t kOffsetBytes = 8;  // of a message in its record

void Put(std::string& text, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>((value >> shift) & 0xff);
}

uint32_t Take32(ByteView& bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  bytes.remove_prefix(4);
  return value;
}

Status Refused(std::string_view why) {
  return {ErrorCode::kProtocolError, fmt::format("places in the job's stream: {}", why)};
}

}  // namespace

Status RecordReader::Feed(ByteView piece) {
  is_file_done_ = false;
  while (!piece.empty() && !is_at_end_ && !is_file_done_ && fault_.ok()) {
    if (header_size_ < kHeaderBytes) {
      const size_t taken = std::min(piece.size(), kHeaderBytes - header_size_);
      std::copy_n(piece.begin(), taken, header_.begin() + static_cast<ptrdiff_t>(header_size_));
      header_size_ += taken;
      piece.remove_prefix(taken);
      if (header_size_ == kHeaderBytes) fault_ = BeginRecord();
      continue;
    }
    const size_t taken = static_cast<size_t>(std::min<uint64_t>(piece.size(), rest_));
    const ByteView bytes = piece.substr(0, taken);
    piece.remove_prefix(taken);
    rest_ -= taken;
    if (rest_ == 0) header_size_ = 0;
    if (IsKept()) {
      kept_.append(bytes);
      if (rest_ == 0) fault_ = Finish();
    } else if (kind_ == RecordKind::kStdout || kind_ == RecordKind::kStderr) {
      handlers_.on_output(kind_, bytes);
    }
  }
  return fault_;
}

Status RecordReader::BeginRecord() {
  const auto kind = static_cast<uint8_t>(header_[0]);
  rest_ = 0;
  for (size_t i = kHeaderBytes; i-- > 1;) {
    rest_ = rest_ << 8 | static_cast<uint8_t>(header_[i]);
  }
  if (kind == 0) return {ErrorCode::kProtocolError, "the stream of the job has no record there"};
  kind_ = static_cast<RecordKind>(kind);
  if (IsKept() && (rest_ == 0 || rest_ > MostBytes())) {
    return {ErrorCode::kProtocolError,
            fmt::format("the {} record of the job's stream has {} bytes",
                        kind_ == RecordKind::kEnd ? "last" : "next", rest_)};
  }
  if (rest_ == 0) header_size_ = 0;
  return {};
}

size_t RecordReader::MostBytes() const {
  if (kind_ == RecordKind::kEnd) return kMaxEndBytes;
  if (kind_ == RecordKind::kControl) return kOffsetBytes + kMaxControlMessage;
  return kind_ == RecordKind::kNext ? kMaxNextBytes : kMaxPlacesBytes;
}

Status RecordReader::FinishNext() {
  const uint32_t file = ParseInteger<uint32_t>(kept_).value_or(0);
  kept_.clear();
  if (file == 0) {
    return {ErrorCode::kProtocolError, "the job's stream goes on in a file without a number"};
  }
  is_file_done_ = true;
  if (handlers_.on_next) handlers_.on_next(file);
  return {};
}

Status RecordReader::Finish() {
  if (kind_ == RecordKind::kEnd) return FinishEnd();
  if (kind_ == RecordKind::kNext) return FinishNext();
  if (kind_ == RecordKind::kControl) return FinishControl();
  Result<PlacesOfRecord> places = ParsePlaces(kept_);
  kept_.clear();
  if (!places.ok()) return std::move(places).status();
  if (handlers_.on_places) handlers_.on_places(std::move(places).value());
  return {};
}

Status RecordReader::FinishEnd() {
  constexpr int kMaxExitCode = 255;
  const auto refused = [](const Status& why) {
    return Status(ErrorCode::kProtocolError,
                  "the last record of the job's stream: " + why.message());
  };
  const Result<Json> json = ParseJson(kept_);
  if (!json.ok()) return refused(json.status());
  StreamEnd end;
  const Status status = ReadFields(*json, FieldReader::Missing::kIsFault, [&end](FieldReader& io) {
    io.Int("exit_code", end.exit_code, {0, kMaxExitCode});
  });
  if (!status.ok()) return refused(status);
  const auto error = json->find("error");
  const auto take = [&](const char* key, std::string& text) {
    if (error == json->end() || !error->is_object() || !error->contains(key)) return;
    if ((*error)[key].is_string()) text = (*error)[key].get<std::string>();
  };
  take("code", end.error_code);
  take("message", end.error_message);
  is_at_end_ = true;
  handlers_.on_end(std::move(end));
  return {};
}

Status RecordReader::FinishControl() {
  const std::string record = std::exchange(kept_, {});
  if (record.size() <= kOffsetBytes) {
    return {ErrorCode::kProtocolError, "a control record of the job's stream has no message"};
  }
  uint64_t offset = 0;
  for (size_t i = kOffsetBytes; i-- > 0;) offset = offset << 8 | static_cast<uint8_t>(record[i]);
  if (!handlers_.on_control) return {};
  return handlers_.on_control(ByteView(record).substr(kOffsetBytes), offset);
}

std::string FormatControl(uint64_t offset, ByteView message) {
  std::string text;
  text.reserve(kOffsetBytes + message.size());
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>((offset >> shift) & 0xff);
  text += message;
  return text;
}

std::string FormatPlaces(const PlacesOfRecord& record) {
  std::string text(1, static_cast<char>(record.stream));
  Put(text, static_cast<uint32_t>(record.np));
  for (const RecordPlace& place : record.places) {
    Put(text, static_cast<uint32_t>(place.rank));
    Put(text, place.is_emptied ? kNone : static_cast<uint32_t>(place.length));
  }
  return text;
}

Result<PlacesOfRecord> ParsePlaces(ByteView bytes) {
  if (bytes.size() < kHeadBytes || (bytes.size() - kHeadBytes) % kPlaceBytes != 0) {
    return Refused("their length");
  }
  PlacesOfRecord record;
  record.stream = static_cast<RecordKind>(bytes.front());
  if (record.stream != RecordKind::kStdout && record.stream != RecordKind::kStderr) {
    return Refused("neither stdout nor stderr");
  }
  bytes.remove_prefix(1);
  const uint32_t np = Take32(bytes);
  if (np < 1 || np > static_cast<uint32_t>(kMaxRanks)) return Refused("the number of workers");
  record.np = static_cast<int>(np);
  record.places.reserve(bytes.size() / kPlaceBytes);
  while (!bytes.empty()) {
    RecordPlace place;
    const uint32_t rank = Take32(bytes);
    const uint32_t length = Take32(bytes);
    place.is_emptied = length == kNone;
    place.length = place.is_emptied ? 0 : length;
    if (rank != kNone) {
      if (rank >= static_cast<uint32_t>(kMaxRanks)) return Refused("an invalid rank");
      place.rank = static_cast<int>(rank);
    } else if (place.is_emptied) {
      return Refused("truncation without a rank");
    }
    record.places.push_back(place);
  }
  return record;
}

void RecordPlaces::Add(int rank, size_t begin, size_t end) {
  if (begin == end) return;
  std::vector<RecordPlace>& places = record_.places;
  if (begin > end_) places.push_back({RecordPlace::kNobody, begin - end_, false});
  end_ = end;
  if (!places.empty() && places.back().rank == rank && !places.back().is_emptied) {
    places.back().length += end - begin;
  } else {
    places.push_back({rank, end - begin, false});
  }
}

void RecordPlaces::Empty(int rank) { record_.places.push_back({rank, 0, true}); }

std::string RecordPlaces::Take() {
  end_ = 0;
  if (record_.places.empty()) return {};
  std::string text = FormatPlaces(record_);
  record_.places.clear();
  return text;
}

}  // namespace hvdray
