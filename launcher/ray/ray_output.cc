// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace hvdray {
RayOutput::RayOutput(Loop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    Stream& stream = streams_.at(fd == STDOUT_FILENO ? 0 : 1);
    stream.fd = fd;
    stream.sink = std::make_unique<OutputSink>(loop, fd);
  }
}

void RayOutput::Write(RecordKind kind, ByteView bytes) {
  Append(streams_.at(kind == RecordKind::kStdout ? 0 : 1), bytes);
}

void RayOutput::Say(std::string_view line) {
  Stream& stream = streams_[1];
  Append(stream, fmt::format("{}{}\n", stream.is_at_line_start ? "" : "\n", line));
}

void RayOutput::Append(Stream& stream, ByteView bytes) {
  if (bytes.empty() || stream.is_broken) return;
  stream.is_at_line_start = bytes.back() == '\n';
  stream.text.append(bytes);
  if (stream.is_waiting) {
    handlers_.on_waiting();
  } else {
    Flush(stream);
  }
}

void RayOutput::Flush(Stream& stream) {
  stream.is_waiting = false;
  const OutputSink::Progress progress = stream.sink->Write(stream.text);
  switch (progress.outcome) {
    case OutputSink::Outcome::kWritten:
      stream.text.clear();
      break;
    case OutputSink::Outcome::kMustWait:
      stream.text.erase(0, progress.written);
      stream.is_waiting = true;
      stream.sink->OnWritable([this, &stream] { Flush(stream); });
      break;
    case OutputSink::Outcome::kReaderGone:
    case OutputSink::Outcome::kFailed:
      Break(stream, progress);
      break;
  }
  handlers_.on_waiting();
}

void RayOutput::Break(Stream& stream, const OutputSink::Progress& progress) {
  stream.is_broken = true;
  stream.text.clear();
  const bool is_stdout = stream.fd == STDOUT_FILENO;
  const bool is_gone = progress.outcome == OutputSink::Outcome::kReaderGone;
  if (is_gone && !is_stdout) return;
  Status why =
      ErrnoStatus(fmt::format("write to {}", is_stdout ? "stdout" : "stderr"), progress.error)
          .WithCode(ErrorCode::kOutputLost)
          .WithHint("free space there, or send it elsewhere");
  if (!is_gone && lost_.ok()) lost_ = why;
  trouble_ = loop_.After(Duration::zero(), [this, is_gone, why = std::move(why)] {
    if (is_gone) {
      handlers_.on_reader_gone();
    } else {
      handlers_.on_lost(why);
    }
  });
}

RayLiveFile::RayLiveFile(Loop& loop, BlockingPool& pool, RayAccess access,
                         const std::string& job_id, RayWantedFile file)
    : file_(std::move(file)),
      stream_(
          loop, pool, std::move(access), job_id, file_.suffix,
          {.on_bytes = [this](const std::string& bytes) { OnBytes(bytes); }, .on_rest = nullptr}) {
  Result<UniqueFd> out = OpenForWriting(file_.path);
  if (out.ok()) {
    file_.out = std::make_shared<UniqueFd>(std::move(out).value());
  } else {
    lost_ = std::move(out).status();
  }
}

void RayLiveFile::Follow(const std::string& node) {
  if (lost_.ok()) stream_.Follow(node);
}

void RayLiveFile::OnBytes(const std::string& bytes) {
  if (!lost_.ok()) return;
  lost_ = WriteAll(file_.out->get(), bytes).WithContext(file_.path);
  if (!lost_.ok()) lost_ = std::move(lost_).WithCode(ErrorCode::kOutputLost);
}

Result<RayWantedFile> RayLiveFile::End() {
  stream_.Stop();
  file_.begin = stream_.offset();
  if (!lost_.ok()) return lost_;
  return file_;
}

}  // namespace hvdray
