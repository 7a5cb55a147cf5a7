#include "launcher/report/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/json.h"

namespace hvdray {

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
  return kind_ == RecordKind::kNext ? kMaxNextBytes : kMaxPlacesBytes;
}

Status RecordReader::FinishNext() {
  uint32_t file = 0;
  const auto [end, error] = std::from_chars(kept_.data(), kept_.data() + kept_.size(), file);
  const bool is_number = error == std::errc() && end == kept_.data() + kept_.size() && file > 0;
  kept_.clear();
  if (!is_number) {
    return {ErrorCode::kProtocolError, "the job's stream goes on in a file without a number"};
  }
  is_file_done_ = true;
  if (handlers_.on_next) handlers_.on_next(file);
  return {};
}

Status RecordReader::Finish() {
  if (kind_ == RecordKind::kEnd) return FinishEnd();
  if (kind_ == RecordKind::kNext) return FinishNext();
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
  if (!json->is_object()) return refused({ErrorCode::kProtocolError, "no object"});
  StreamEnd end;
  const Result<int64_t> code = JsonInt(*json, "exit_code", -1, 0, kMaxExitCode);
  if (!code.ok()) return refused(code.status());
  if (*code < 0) return refused({ErrorCode::kProtocolError, "no exit_code"});
  end.exit_code = static_cast<int>(*code);
  const auto error = json->find("error");
  if (error != json->end() && error->is_object()) {
    const Result<std::string> label = JsonString(*error, "code", "");
    if (label.ok()) end.error_code = *label;
    const Result<std::string> message = JsonString(*error, "message", "");
    if (message.ok()) end.error_message = *message;
  }
  is_at_end_ = true;
  handlers_.on_end(std::move(end));
  return {};
}

}  // namespace hvdray
