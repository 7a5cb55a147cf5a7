// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/line_file.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <utility>

#include "base/fd.h"
#include "base/file.h"

namespace hvdray {
namespace {

// How far a pipe's reader may lag before the file counts as damaged.
constexpr size_t kMaxPendingBytes = size_t{4} << 20;
// How long the job's end waits for that reader.
constexpr int kLastWaitMs = 2000;

}  // namespace

Result<std::unique_ptr<LineFile>> LineFile::Open(Loop& loop, Options options) {
  // Opening a named pipe blocks until it has a reader, as in a shell's redirection; nothing runs
  // yet.
  Result<UniqueFd> target = OpenForWriting(options.path);
  if (!target.ok()) return std::move(target).status().WithContext(options.option);
  return std::unique_ptr<LineFile>(
      new LineFile(loop, std::move(options), std::move(target).value()));
}

LineFile::~LineFile() {
  options_.on_damaged = nullptr;  // its owner is being destroyed
  // The loop no longer serves the pipe; give its reader one more chance.
  pollfd ready{fd_.get(), POLLOUT, 0};
  while (!pending_.empty() && ::poll(&ready, 1, kLastWaitMs) > 0) Flush();
}

void LineFile::Write(ByteView line) {
  if (is_broken_) return;
  pending_ += line;
  pending_ += '\n';
  if (!is_waiting_) Flush();
  if (pending_.size() > kMaxPendingBytes)
    Break({ErrorCode::kOutputLost, "its reader is too slow", "write it to a file"});
}

void LineFile::Flush() {
  is_waiting_ = false;
  const OutputSink::Progress progress = sink_.Write(pending_);
  pending_.erase(0, progress.written);
  switch (progress.outcome) {
    case OutputSink::Outcome::kWritten:
      break;
    case OutputSink::Outcome::kMustWait:
      is_waiting_ = true;
      sink_.OnWritable([this] { Flush(); });
      break;
    case OutputSink::Outcome::kReaderGone:
      Break({ErrorCode::kReaderGone, "its reader went away"});
      break;
    case OutputSink::Outcome::kFailed:
      Break(ErrnoStatus("write", progress.error)
                .WithCode(ErrorCode::kOutputLost)
                .WithHint("free space there, or write it elsewhere"));
      break;
  }
}

void LineFile::Break(Status why) {
  is_broken_ = true;
  pending_.clear();
  why = std::move(why).WithContext(fmt::format("{} {}", options_.option, options_.path));
  if (options_.on_damaged != nullptr) options_.on_damaged(std::move(why));
}

}  // namespace hvdray
