// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/remote_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// A line of an agent's log without its time, which our own log says. `text`: "gang: text".
struct LoggedLine {
  LogLevel level = LogLevel::kError;
  std::string_view text;
};

/// nullopt: not LogMessage()'s.
std::optional<LoggedLine> ParseLogLine(std::string_view line) {
  constexpr std::string_view kStampForm = "0000-00-00T00:00:00.000Z ";
  constexpr std::string_view kLetters = "EWID";  // of LogLevel
  if (line.size() < kStampForm.size() + 2) return std::nullopt;
  for (size_t i = 0; i < kStampForm.size(); ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    if (kStampForm[i] == '0' ? !is_digit : line[i] != kStampForm[i]) return std::nullopt;
  }
  line.remove_prefix(kStampForm.size());
  const size_t level = kLetters.find(line[0]);
  if (level == std::string_view::npos || line[1] != ' ') return std::nullopt;
  return LoggedLine{static_cast<LogLevel>(level), line.substr(2)};
}

constexpr std::string_view kLoggedIn = "Authenticated to ";

// ssh says more than ten about a host key that has changed.
constexpr size_t kLinesKept = 32;

class FallbackShell : public RemoteShell {
 public:
  FallbackShell(RemoteShell& first, RemoteShell& second) : first_(first), second_(second) {}

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    first_.Run(host, command,
               [this, host, command, done = std::move(done)](Result<AgentStart> start) {
                 if (start.ok() || start.status().code() != ErrorCode::kNotSupported) {
                   return done(std::move(start));
                 }
                 Log(LogLevel::kInfo, "host " + host, "{}", start.status().message());
                 left_to_second_.insert(host);
                 second_.Run(host, command, done);
               });
  }

  Status Explain(const std::string& host, const Status& how,
                 const std::vector<std::string>& lines) const override {
    return (left_to_second_.contains(host) ? second_ : first_).Explain(host, how, lines);
  }

  void Close() override {
    first_.Close();
    second_.Close();
  }

 private:
  RemoteShell& first_;
  RemoteShell& second_;
  std::set<std::string> left_to_second_;
};

}  // namespace

Status RemoteShell::Explain(const std::string& host, const Status& how,
                            const std::vector<std::string>& lines) const {
  const std::string last = lines.empty() ? "" : ": " + lines.back();
  return {
      ErrorCode::kAgentStartFailed,
      (how.ok() ? std::string("the shell ended before the agent started") : how.message()) + last,
      fmt::format("see what the login shell there does with: ssh {} true", host)};
}

std::string HintForSilence(std::string_view host) {
  return fmt::format(
      "if ssh {} true does not end either, a start-up file of its shell (.bashrc) waits for input "
      "or starts another shell",
      host);
}

std::string_view WithoutSource(std::string_view line) {
  // "packet.c:sshpkt_vfatal():1909 (pid=7): text"
  const size_t source = line.find("():");
  const size_t process = line.find(" (pid=", std::min(source, line.size()));
  const size_t end = line.find("): ", std::min(process, line.size()));
  return end == std::string_view::npos ? line : line.substr(end + 3);
}

void RemoteStderr::OnLine(const std::string& host, std::string_view said) {
  std::string line = ShownLine(WithoutSource(said));
  const bool is_running = running_.contains(host);
  // Where changed keys are accepted, nothing fails that would tell it.
  const bool is_warning = is_running || line.find(kHostKeyChanged) != std::string::npos;
  const LoggedLine shown = ParseLogLine(line).value_or(
      LoggedLine{is_warning ? LogLevel::kWarning : LogLevel::kInfo, line});
  Log(shown.level, "host " + host, "{}", shown.text);
  if (is_running) return;
  std::deque<std::string>& lines = lines_[host];
  lines.push_back(std::move(line));
  if (lines.size() > kLinesKept) lines.pop_front();
}

std::vector<std::string> RemoteStderr::LinesOf(const std::string& host) const {
  const auto found = lines_.find(host);
  if (found == lines_.end()) return {};
  std::vector<std::string> lines;
  std::ranges::copy_if(found->second, std::back_inserter(lines),
                       [](const std::string& line) { return !line.starts_with(kLoggedIn); });
  return lines;
}

bool RemoteStderr::HasLoggedIn(const std::string& host) const {
  const auto found = lines_.find(host);
  return found != lines_.end() &&
         std::ranges::any_of(found->second, [](auto& line) { return line.starts_with(kLoggedIn); });
}

std::unique_ptr<RemoteShell> MakeFallbackShell(RemoteShell& first, RemoteShell& second) {
  return std::make_unique<FallbackShell>(first, second);
}

}  // namespace hvdray
