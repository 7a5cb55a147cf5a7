#include "cluster/remote_stderr.h"

#include <utility>

#include "base/log.h"
#include "base/shown_line.h"

namespace hvdray {
namespace {

constexpr size_t kLinesKept = 8;

}  // namespace

void RemoteStderr::OnLine(const std::string& host, std::string_view said) {
  std::string line = ShownLine(said);
  const bool is_running = running_.contains(host);
  Log(is_running ? LogLevel::kWarning : LogLevel::kInfo, "host " + host, "{}", line);
  if (is_running) return;
  std::deque<std::string>& lines = lines_[host];
  lines.push_back(std::move(line));
  if (lines.size() > kLinesKept) lines.pop_front();
}

std::vector<std::string> RemoteStderr::LinesOf(const std::string& host) const {
  const auto found = lines_.find(host);
  if (found == lines_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace hvdray
