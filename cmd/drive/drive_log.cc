#include "cmd/drive/drive_log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "base/json.h"
#include "launcher/report/facts_json.h"

namespace hvdray {

std::string AsciiLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += " | ";
    } else {
      line += c >= 0x20 && c < 0x7f ? c : '?';
    }
  }
  return line;
}

Status DriveLog::Open(const std::string& path) {
  stream_ =
      UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!stream_.is_valid()) {
    return ErrnoStatus("open " + path, errno).WithCode(ErrorCode::kFileUnwritable);
  }
  for (const std::string& line : std::exchange(early_, {})) Print(line);
  return {};
}

void DriveLog::Say(std::string_view text, bool is_quiet) {
  Note(text);
  if (!is_quiet) Print(fmt::format("hvdray: {}", text));
}

void DriveLog::Note(std::string_view text) {
  (void)WriteAll(log_fd_, fmt::format("hvdray: {}\n", AsciiLine(text))).ok();
}

void DriveLog::Print(std::string_view line) {
  if (!stream_.is_valid()) {
    early_.emplace_back(line);
    return;
  }
  Append(RecordKind::kStderr, fmt::format("{}\n", line));
}

void DriveLog::Append(RecordKind kind, std::string_view bytes) {
  const int error = AppendRecord(stream_.get(), kind, bytes);
  if (lost_error_ == 0) lost_error_ = error;
}

Status DriveLog::End(int exit_code, const Status& error) {
  if (!stream_.is_valid()) return {};
  const int lost_before = std::exchange(lost_error_, 0);
  Append(RecordKind::kEnd, DumpJson({{"exit_code", exit_code}, {"error", ErrorJson(error)}}));
  if (lost_error_ == 0) lost_error_ = lost_before;
  if (lost_error_ == 0) return {};
  return ErrnoStatus("write the stream of the job", lost_error_).WithCode(ErrorCode::kOutputLost);
}

}  // namespace hvdray
