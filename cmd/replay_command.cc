// SPDX-License-Identifier: Apache-2.0
// `hvdray replay`: from a file's lines to the replay, from its result to text or JSON and an exit
// code. Starts nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "cmd/commands.h"
#include "launcher/driver/elastic_replay.h"
#include "launcher/job/exit_code.h"
#include "launcher/report/replay_text.h"

namespace hvdray {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

Status Unreadable(const std::string& path, int error) {
  return ErrnoStatus(path, error).WithCode(ErrorCode::kFileUnreadable);
}

/// Feeds the whole lines of `pending` and keeps the rest. false: the replay has stopped.
Result<bool> FeedLines(ElasticReplay& replay, std::string& pending) {
  size_t begin = 0;
  for (size_t end = 0; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const ByteView line = ByteView(pending).substr(begin, end - begin);
    HVDRAY_ASSIGN_OR_RETURN(const bool goes_on, replay.Feed(line, ElasticReplay::Line::kWhole));
    if (!goes_on) return false;
  }
  pending.erase(0, begin);
  return true;
}

/// A recording may be larger than memory; of a line that is too long, keeps just enough for the
/// replay to refuse it.
Result<ReplayResult> Replay(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return Unreadable(path, errno);
  ElasticReplay replay(path);
  std::string pending;
  std::string piece(kPieceBytes, '\0');
  while (true) {
    const ssize_t n = ::read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unreadable(path, errno);
    if (n == 0) break;
    pending.append(piece, 0, static_cast<size_t>(n));
    HVDRAY_ASSIGN_OR_RETURN(const bool goes_on, FeedLines(replay, pending));
    if (!goes_on) return replay.Finish();
    if (pending.size() > kMaxRecordLineBytes) {
      HVDRAY_RETURN_IF_ERROR(replay.Feed(pending, ElasticReplay::Line::kWhole).status());
    }
  }
  if (!pending.empty()) {
    HVDRAY_RETURN_IF_ERROR(replay.Feed(pending, ElasticReplay::Line::kUnended).status());
  }
  return replay.Finish();
}

}  // namespace

int ReplayCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("replay", line, &request)) return *code;
  if (request.wants_version) return PrintOut("replay", VersionText());
  const Result<ReplayResult> result = Replay(request.arguments.front());
  if (!result.ok()) return Fail("replay", result.status());
  const int exit_code = result->is_well() ? 0 : 1;
  if (request.Has(OptionId::kJson)) return PrintOut("replay", ReplayJson(*result), exit_code);
  return PrintOut("replay", *request.spec.is_quiet ? ReplayFaults(*result) : ReplayText(*result),
                  exit_code);
}

}  // namespace hvdray
