#include "cluster/agent_bootstrap.h"

#include <fmt/format.h>

#include "base/shown_line.h"

namespace hvdray {
namespace {

constexpr std::string_view kStageMark = "HVDRAY-STAGE/1 ";
constexpr std::string_view kFailedMark = "HVDRAY-FAILED/1 ";
constexpr std::string_view kAgentMark = "HVDRAY-AGENT/1 ";

// Neither ' nor \ nor ! nor a line's end may stand here: login shells differ in what they make of
// them inside of single quotes. The umask of the workers is the agent's, so it is put back.
// Who cannot be told any more (SIGPIPE) has cleaned up before.
// What failed may be told in several lines: fail() makes one of them.
constexpr std::string_view kScript =
    "i=$1; p=$2; d=$3; t=; shift 3; "
    "if [ -n \"$p\" ] && [ -x \"$p\" ]; then exec \"$p\" \"$@\"; fi; "
    "clean() { [ -z \"$t\" ] || rm -f \"$t\"; }; "
    "fail() { clean; set -f; echo HVDRAY-FAILED/1 $*; exit 1; }; "
    "if [ -z \"$d\" ]; then "
    "if [ -n \"$XDG_CACHE_HOME\" ]; then d=$XDG_CACHE_HOME/hvdray; "
    "elif [ -d \"$HOME\" ]; then d=$HOME/.cache/hvdray; "
    "else fail \"no home folder ($HOME)\"; fi; fi; "
    "f=$d/agent-$i; if [ -x \"$f\" ]; then touch -c \"$f\"; exec \"$f\" \"$@\"; fi; "
    "u=$(umask); umask 077; t=$f.$(uname -n).$$; "
    "trap clean 0 1 2 15; "
    "e=$(mkdir -p \"$d\" 2>&1) || fail \"mkdir $d: $e\"; "
    "e=$( { : >\"$t\"; } 2>&1 ) || fail \"write in $d: $e\"; "
    "echo \"HVDRAY-STAGE/1 $(uname -s) $(uname -m) $d\"; "
    "read -r s n || exit 1; "
    "e=$( { head -c \"$n\" | gzip -dc >\"$t\"; } 2>&1 ) || fail \"write $t: $e\"; "
    "if command -v sha256sum >/dev/null 2>&1; then "
    "[ \"$(sha256sum <\"$t\" | cut -c 1-64)\" = \"$s\" ] || fail \"checksum of $t is wrong\"; fi; "
    "e=$( { chmod 700 \"$t\" && mv -f \"$t\" \"$f\"; } 2>&1 ) || fail \"put $f in place: $e\"; "
    "find \"$d\" -name \"agent-*\" -mtime +30 -exec rm -f {} + 2>/dev/null; "
    "[ -x \"$f\" ] || fail \"$d takes no programs (mounted noexec)\"; "
    "umask \"$u\"; exec \"$f\" \"$@\"";

}  // namespace

std::string ShellQuoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\"'\"'";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string BootstrapCommand(const BootstrapRequest& request) {
  std::string command = fmt::format(
      "exec /bin/sh -c '{}' hvdray-stage {} {} {}", kScript, ShellQuoted(request.stage_id),
      ShellQuoted(request.installed_path), ShellQuoted(request.folder));
  for (const std::string& argument : request.agent_arguments) {
    command += ' ' + ShellQuoted(argument);
  }
  return command;
}

std::string StageAnswer(std::string_view sha256, size_t compressed_bytes) {
  return fmt::format("{} {}\n", sha256, compressed_bytes);
}

BootstrapLine ParseBootstrapLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (const size_t at = line.rfind(kStageMark); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + kStageMark.size());
    const size_t first = rest.find(' ');
    const size_t second = first == std::string_view::npos ? first : rest.find(' ', first + 1);
    if (second != std::string_view::npos) {
      return bootstrap::NeedsAgent{ShownLine(rest.substr(0, first)),
                                   ShownLine(rest.substr(first + 1, second - first - 1)),
                                   ShownLine(rest.substr(second + 1))};
    }
  }
  if (const size_t at = line.rfind(kFailedMark); at != std::string_view::npos) {
    return bootstrap::Failed{ShownLine(line.substr(at + kFailedMark.size()))};
  }
  if (line.rfind(kAgentMark) != std::string_view::npos) return bootstrap::AgentSpeaks{};
  return bootstrap::Noise{};
}

}  // namespace hvdray
