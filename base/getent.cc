// SPDX-License-Identifier: Apache-2.0
#include "base/getent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/exec.h"
#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxAnswer = size_t{1} << 20;
// Exit codes of getent.
constexpr int kNoSuchDatabase = 1, kNoSuchKey = 2;

/// All that comes from `fd`; nullopt: the time is over, or it is too much.
std::optional<std::string> ReadAll(int fd, TimePoint end) {
  std::string text;
  while (text.size() <= kMaxAnswer) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd polled{fd, POLLIN, 0};
    const int ready =
        ::poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return std::nullopt;
}

struct Answer {
  int exit_code = 0;
  std::string text;
};

Result<Answer> Ask(const std::string& database, const std::string& key, Duration limit,
                   const std::string& program) {
  // No "--" before it: Alpine's getent would look that up. Nobody's name begins so.
  if (key.starts_with('-')) return Answer{kNoSuchKey, ""};
  HVDRAY_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.is_valid()) return ErrnoStatus("/dev/null", errno);
  pid_t pid = -1;
  const int error = SpawnApart(ApartAs::kGroup, {program, database, key}, null.get(),
                               out.write_end.get(), null.get(), pid);
  if (error == ENOENT) {
    return Status(ErrorCode::kUnknownHost, fmt::format("{}: no such program", program),
                  "this hvdray asks it for names: install it, or give numeric addresses");
  }
  if (error != 0) return ErrnoStatus(program, error);
  out.write_end.Reset();
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  std::optional<std::string> text = ReadAll(out.read_end.get(), deadline);
  const UniqueFd child = OpenPidFd(pid);
  // It may have closed its stdout, and go on.
  if (text && child.is_valid() &&
      !AwaitEnd(child.get(), deadline - std::chrono::steady_clock::now())) {
    text.reset();
  }
  if (!text) ::kill(-pid, SIGKILL);
  const int end = ReapChild(pid);
  if (!text) return Status(ErrorCode::kUnknownHost, fmt::format("{}: no answer in time", program));
  return Answer{ShellCode(end), std::move(*text)};
}

Result<std::vector<std::string>> LinesOfAnswer(const Result<Answer>& answer,
                                               const std::string& program) {
  if (!answer.ok()) return answer.status();
  if (answer->exit_code != 0 && answer->exit_code != kNoSuchKey) {
    return Status(ErrorCode::kUnknownHost,
                  fmt::format("{}: exit code {}", program, answer->exit_code));
  }
  std::vector<std::string> lines;
  for (const std::string_view line : LinesOf(answer->text)) lines.emplace_back(line);
  return lines;
}

}  // namespace

Result<std::vector<std::string>> AskGetent(const std::string& database, const std::string& key,
                                           Duration limit, const std::string& program) {
  return LinesOfAnswer(Ask(database, key, limit, program), program);
}

Result<std::vector<std::string>> AddressesByGetent(const std::string& host, Duration limit,
                                                   const std::string& program) {
  Result<Answer> answer = Ask("ahosts", host, limit, program);
  // Others than glibc's may know only the older one, which has no more than one family.
  if (answer.ok() && answer->exit_code == kNoSuchDatabase)
    answer = Ask("hosts", host, limit, program);
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> lines, LinesOfAnswer(answer, program));
  std::vector<std::string> addresses;
  for (const std::string& line : lines) {
    const std::vector<std::string_view> words = BlankSeparated(line);
    if (words.empty() || std::ranges::find(addresses, words[0]) != addresses.end()) continue;
    addresses.emplace_back(words[0]);
  }
  return addresses;
}

}  // namespace hvdray
