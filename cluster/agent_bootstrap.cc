// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent_bootstrap.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kStageMark = "HVDRAY-STAGE/1 ";
constexpr std::string_view kFailedMark = "HVDRAY-FAILED/1 ";
constexpr std::string_view kAgentMark = "HVDRAY-AGENT/1 ";

// The script must not contain ', \, ! or a newline: login shells treat them differently inside
// single quotes.
// Start-up files may have left no PATH worth the name.
// fail: joins an error of several lines into one. It cleans up first, since echo may die of
// SIGPIPE. A host that has the agent starts only one program, ls: with many hosts, each one costs.
// So the user id comes from the kernel (from id only as a fallback), and the agent records its own
// use. look: all arguments are files or directories of an owner in $k that nobody else may write,
// or (if $s matches them) sticky directories. One bad line suffices to refuse, so that a name with
// a newline in it can't make up for another. mine: the same for the current directory and the agent
// in it, whose names contain no blanks. safe: nobody else can have put this program here: it and
// each directory above it belong to us or root. Refuses a symbolic link, whose mode tells nothing
// about its target.
constexpr std::string_view kHelpers =
    "i=$1; p=$2; b=$3; t=; shift 3; unset CDPATH; w=$PWD; f=./agent-$i; "
    "command -v ls >/dev/null 2>&1 || { PATH=$PATH${PATH:+:}/usr/bin:/bin; export PATH; }; "
    "clean() { [ -z \"$t\" ] || rm -f \"$t\"; }; "
    "fail() { clean; set -f; echo HVDRAY-FAILED/1 $*; exit 1; }; "
    "u=; if [ -r /proc/self/status ]; then while read -r q x u x; do [ \"$q\" = Uid: ] && break; "
    "u=; "
    "done </proc/self/status; fi; "
    "[ -n \"$u\" ] || u=$(id -u) || fail \"id -u failed\"; "
    "look() { LC_ALL=C ls -ldn \"$@\" 2>/dev/null | ( n=$#; while read -r m l o r; do "
    "case $k in *:$o:*) ;; *) exit 1 ;; esac; "
    "case $m in [d-]????[-]??[-]*|$s) n=$((n-1)) ;; *) exit 1 ;; esac; done; [ $n = 0 ] ); }; "
    "mine() { set -f; set -- $(LC_ALL=C ls -ldn . \"$f\" 2>/dev/null); set +f; "
    "[ $# = 18 ] && [ \"$3 ${12}\" = \"$u $u\" ] || return 1; "
    "case \"$1 ${10}\" in d????[-]??[-]*\" \"[-]????[-]??[-]*) ;; *) return 1 ;; esac; }; "
    "safe() { q=$(cd -P \"${1%/*}/\" 2>/dev/null && pwd -P) || return 1; q=${q%/}; "
    "set -- \"$q/${1##*/}\" /; while [ -n \"$q\" ]; do set -- \"$@\" \"$q\"; q=${q%/*}; done; "
    "k=:0:$u:; s=\"d????????[tT]*\"; look \"$@\"; }; "
    "run() { PWD=$w; exec \"$f\" --folder \"$w\" \"$@\"; }; ";

// The script enters the directory before it checks it, so nobody can replace it afterwards by a
// rename. Therefore the agent is run by a relative name, and gets the old directory as an argument.
constexpr std::string_view kFind =
    "if [ -n \"$p\" ] && [ -x \"$p\" ] && safe \"$p\"; then exec \"$p\" \"$@\"; fi; "
    "case \"$b\" in \"~\" | \"~/\"*) b=$HOME${b#?} ;; esac; "
    "if [ -n \"$b\" ]; then d=$b/hvdray-agents-$u; "
    "elif [ -n \"$XDG_CACHE_HOME\" ]; then d=$XDG_CACHE_HOME/hvdray/agents-$u; "
    "elif [ -d \"$HOME\" ]; then d=$HOME/.cache/hvdray/agents-$u; "
    "else fail \"no home directory ($HOME)\"; fi; "
    "[ -d \"$d\" ] || e=$(umask 077; mkdir -p \"$d\" 2>&1) || fail \"mkdir $d: $e\"; "
    "if [ -L \"$d\" ]; then fail \"$d is a link, and others may lead it elsewhere\"; fi; "
    "cd \"$d\" 2>/dev/null || fail \"cannot enter $d\"; "
    "if [ -x \"$f\" ] && mine; then run \"$@\"; fi; "
    "k=:$u:; s=none; look . || fail \"$d is not yours, or others may write in it\"; ";

// Workers inherit the agent's umask, so the script restores it. Removes only files that were staged
// here.
constexpr std::string_view kStage =
    "m=$(umask); umask 077; t=$f.$(uname -n).$$; "
    "trap clean 0 1 2 15; "
    "e=$( { rm -f \"$t\"; ( set -C; : >\"$t\" ); } 2>&1 ) || fail \"write in $d: $e\"; "
    "echo \"HVDRAY-STAGE/1 $(uname -s) $(uname -m) $d\"; "
    "read -r s n || exit 1; "
    "e=$( { head -c \"$n\" | gzip -dc >\"$t\"; } 2>&1 ) || fail \"write $t in $d: $e\"; "
    "if command -v sha256sum >/dev/null 2>&1; then "
    "[ \"$(sha256sum <\"$t\" | cut -c 1-64)\" = \"$s\" ] || "
    "fail \"checksum of $t in $d is wrong\"; fi; "
    "e=$( { chmod 700 \"$t\" && mv -f \"$t\" \"$f\"; } 2>&1 ) || "
    "fail \"put $f in place in $d: $e\"; "
    "x=[0-9a-f]; x=$x$x$x$x; x=$x$x; x=$x$x; x=$x$x; for g in \"agent-$x\" \"agent-$x.*\"; do "
    "find . -maxdepth 1 -type f -name \"$g\" -mtime +30 -exec rm -f {} + 2>/dev/null; done; "
    "[ -x \"$f\" ] || fail \"$d cannot hold programs (mounted noexec)\"; "
    "umask \"$m\"; run \"$@\"";

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
  std::string command =
      fmt::format("exec /bin/sh -c '{}{}{}' hvdray-stage {} {} {}", kHelpers, kFind, kStage,
                  ShellQuoted(request.stage_id), ShellQuoted(request.installed_path),
                  ShellQuoted(request.directory));
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
      return {.kind = BootstrapLine::Kind::kNeedsAgent,
              .system = ShownLine(rest.substr(0, first)),
              .machine = ShownLine(rest.substr(first + 1, second - first - 1)),
              .directory = ShownLine(rest.substr(second + 1))};
    }
  }
  if (const size_t at = line.rfind(kFailedMark); at != std::string_view::npos) {
    return {.kind = BootstrapLine::Kind::kFailed,
            .why = ShownLine(line.substr(at + kFailedMark.size()))};
  }
  if (line.rfind(kAgentMark) != std::string_view::npos)
    return {.kind = BootstrapLine::Kind::kAgentSpeaks};
  return {};
}

namespace {

// The limit before the announcement (docs/protocol.md, "Start-up").
constexpr size_t kMaxNoise = size_t{64} << 10;

}  // namespace

StagedStream::StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner)
    : loop_(loop), inner_(std::move(inner)) {}

void StagedStream::Scan(ScanHandlers handlers) {
  scan_ = std::make_shared<ScanHandlers>(std::move(handlers));
  inner_->Start(*this);
}

void StagedStream::OnData(ByteView bytes) {
  if (owner_ != nullptr && kept_.empty()) return owner_->OnData(bytes);
  if (is_found_) {
    kept_ += bytes;
    return;
  }
  pending_ += bytes;
  TakeLine();
}

void StagedStream::OnDrained() {
  if (owner_ != nullptr) owner_->OnDrained();
}

// One at a time: on_line may drop the stream.
void StagedStream::TakeLine() {
  const auto held = scan_;
  size_t end = 0;
  while ((end = pending_.find('\n')) != std::string::npos) {
    const BootstrapLine line = ParseBootstrapLine(ByteView(pending_).substr(0, end));
    const bool is_ours =
        line.kind == BootstrapLine::Kind::kNeedsAgent || line.kind == BootstrapLine::Kind::kFailed;
    if (!is_ours) kept_.append(pending_, 0, end + 1);
    pending_.erase(0, end + 1);
    if (line.kind == BootstrapLine::Kind::kNoise) continue;
    is_found_ = line.kind == BootstrapLine::Kind::kAgentSpeaks;
    if (is_found_) {
      later_.Cancel();
      kept_ += std::exchange(pending_, {});
      inner_->SetReading(false);
    } else {
      later_ = loop_.After(Duration::zero(), [this] { TakeLine(); });
    }
    return held->on_line(line);
  }
  if (is_closed_) return held->on_closed(std::move(closed_));
  if (kept_.size() + pending_.size() > kMaxNoise) {
    inner_->SetReading(false);
    is_closed_ = true;
    held->on_closed({ErrorCode::kProtocolError,
                     "its shell printed over 64 KiB before any agent announced itself",
                     "check what the shell's start-up files print for logins without a terminal"});
  }
}

void StagedStream::OnClosed(Status why) {
  if (std::exchange(is_closed_, true)) return;
  if (owner_ != nullptr && kept_.empty()) return owner_->OnClosed(std::move(why));
  closed_ = std::move(why);
  if (!is_found_) TakeLine();
}

void StagedStream::Start(ByteStream::Owner& owner) {
  owner_ = &owner;
  later_ = loop_.After(Duration::zero(), [this] { Deliver(); });
}

void StagedStream::SetReading(bool is_reading) {
  const bool was_reading = std::exchange(wants_reading_, is_reading);
  if (kept_.empty()) {
    inner_->SetReading(is_reading);
  } else if (is_reading && !was_reading && owner_ != nullptr) {
    later_ = loop_.After(Duration::zero(), [this] { Deliver(); });
  }
}

void StagedStream::Deliver() {
  if (!wants_reading_ || kept_.empty()) return;
  if (is_closed_) {
    later_ = loop_.After(Duration::zero(), [this] { owner_->OnClosed(std::move(closed_)); });
  } else {
    inner_->SetReading(true);
  }
  owner_->OnData(std::exchange(kept_, {}));
}

}  // namespace hvdray
