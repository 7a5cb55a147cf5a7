// SPDX-License-Identifier: Apache-2.0
// Decides which thread runs ssh and which ones wait; adds what the machine's files and keys tell.
#include "cluster/ssh/ssh_config_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/ssh/ssh_agent.h"
#include "cluster/ssh/ssh_identity.h"
#include "cluster/transport/child_process.h"

namespace hvdray {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;
/// A host that waits longer for another's answer runs ssh itself: the delay there (a Match exec,
/// for instance) may concern that host only.
constexpr Duration kPatience = std::chrono::milliseconds(500);

std::vector<SshConfigLine> ReadConfigFiles(const SshTarget& target, const SshOverrides& overrides,
                                           const SshUser& user) {
  std::vector<std::string> paths = {overrides.config_file};
  if (overrides.config_file.empty()) paths = {user.home + "/.ssh/config", "/etc/ssh/ssh_config"};
  std::vector<SshConfigLine> lines;
  for (const std::string& path : paths) {
    const Result<std::string> text = ReadFile(path, kMaxConfigBytes);
    if (!text.ok()) continue;
    std::vector<std::string> warnings;
    std::vector<SshConfigLine> read = ReadSshConfig(*text, target.host, warnings);
    for (const std::string& warning : warnings) {
      Log(LogLevel::kWarning, "ssh", "{}: {}", path, warning);
    }
    std::move(read.begin(), read.end(), std::back_inserter(lines));
  }
  return lines;
}

/// Empty without an agent.
Result<std::vector<SshAgentKey>> AgentKeys(const SshSettings& settings, const SshLimit& limit) {
  if (settings.identity_agent.empty()) return std::vector<SshAgentKey>();
  HVDRAY_ASSIGN_OR_RETURN(SshAgentWithKeys opened, ConnectToAgent(settings.identity_agent, limit));
  return std::move(opened.keys);
}

/// ssh itself would wait for such an agent for ever.
bool IsAgentSilent(const SshSettings& settings, const SshLimit& limit) {
  return AgentKeys(settings, limit).status().code() == ErrorCode::kConnectTimeout;
}

/// Why the keys need the system's ssh. Empty when libssh2 can use at least one key, or when there
/// are no keys at all: the authentication's own error explains that best.
std::string NeedByKeys(const SshSettings& settings, const SshLimit& limit) {
  if (!settings.allows_public_key) return {};
  std::string reason;
  std::vector<std::string> listed;
  bool is_any_usable = false;
  for (const std::string& path : settings.identity_files) {
    const SshIdentity identity = LoadSshIdentity(path);
    if (!identity.exists) continue;
    if (identity.has_certificate) return fmt::format("{} has a certificate", path);
    listed.push_back(identity.facts.public_blob);
    if (CanSignWithLibssh2(identity.facts.type)) {
      // Counts even if it can't be used: the user chose it and should see its error.
      is_any_usable = true;
    } else if (reason.empty()) {
      reason = fmt::format("{} is of type {}", path, SshKeyTypeName(identity.facts.type));
    }
    if (settings.has_explicit_identity && path == settings.identity_files[0] && !is_any_usable) {
      return reason;
    }
  }
  if (is_any_usable) return {};
  for (const SshAgentKey& key : AgentKeys(settings, limit).value_or({})) {
    const bool is_listed = std::find(listed.begin(), listed.end(), key.blob) != listed.end();
    if (settings.identities_only && !is_listed) continue;
    const SshKeyType type = ToSshKeyType(AlgorithmOfBlob(key.blob));
    if (type != SshKeyType::kUnknown && CanSignWithLibssh2(type)) return {};
    if (reason.empty()) {
      reason = fmt::format("the agent's key {} is of type {}", key.comment, SshKeyTypeName(type));
    }
  }
  return reason;
}

constexpr size_t kMaxOutputBytes = 1 << 20;

struct ProgramEnd {
  int wait_status = 0;
  std::string output;
  std::string errors;
};

/// Appends the bytes that `fd` has; closes it at its end. False when `text` has become too long.
bool Drain(UniqueFd& fd, std::string& text) {
  std::array<char, 16384> buffer;
  const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) {
    fd.Reset();
  } else {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text.size() <= kMaxOutputBytes;
}

Status ReadBoth(Pipe& out, Pipe& err, ProgramEnd& end, const SshLimit& limit) {
  while (out.read_end.is_valid() || err.read_end.is_valid()) {
    std::array<pollfd, 3> fds = {{{out.read_end.get(), POLLIN, 0},
                                  {err.read_end.get(), POLLIN, 0},
                                  {limit.cancel_fd, POLLIN, 0}}};
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit.Remaining());
    const int ready =
        ::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(rest.count(), 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return ErrnoStatus("poll", errno);
    if (fds[2].revents != 0) return {ErrorCode::kCancelled, "cancelled"};
    if (ready == 0) return {ErrorCode::kConnectTimeout, "no answer in time"};
    bool is_short = true;
    if (fds[0].revents != 0) is_short = Drain(out.read_end, end.output);
    if (fds[1].revents != 0) is_short = Drain(err.read_end, end.errors) && is_short;
    if (!is_short) return {ErrorCode::kSpecInvalid, "its output is too long"};
  }
  return {};
}

/// Runs `argv` with an empty stdin. nullopt: no such program.
Result<std::optional<ProgramEnd>> RunProgram(const std::vector<std::string>& argv,
                                             const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.is_valid()) return ErrnoStatus("/dev/null", errno);
  // In its own group, so that a kill also ends its children.
  pid_t pid = -1;
  const int error = SpawnTied(argv, in.get(), out.write_end.get(), err.write_end.get(), pid);
  if (error == ENOENT) return std::optional<ProgramEnd>();
  if (error != 0) return ErrnoStatus(argv[0], error);
  out.write_end.Reset();
  err.write_end.Reset();
  ProgramEnd end;
  const Status read = ReadBoth(out, err, end, limit);
  if (!read.ok() && pid > 1) ::kill(-pid, SIGKILL);
  end.wait_status = ReapChild(pid);
  if (!read.ok()) return read;
  return std::optional<ProgramEnd>(std::move(end));
}

/// ForkAfterAuthentication makes ssh want a command even for -G; RemoteCommand forbids it one.
constexpr const char* kWantsCommand = "without a command to execute";

std::vector<std::string> SshGCommand(const std::string& program, const SshTarget& target,
                                     const SshOverrides& overrides, bool is_verbose) {
  std::vector<std::string> argv = {program, "-G"};
  if (is_verbose) argv.emplace_back("-v");
  const auto add = [&argv](const char* option, std::string value) {
    argv.insert(argv.end(), {option, std::move(value)});
  };
  if (!overrides.config_file.empty()) add("-F", overrides.config_file);
  if (!overrides.identity_file.empty()) add("-i", overrides.identity_file);
  const int port = target.port != 0 ? target.port : overrides.port;
  if (port != 0) add("-p", fmt::format("{}", port));
  if (!target.user.empty()) add("-l", target.user);
  add("--", target.host);
  return argv;
}

bool IsElf(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4> magic{};
  return fd.is_valid() && ::read(fd.get(), magic.data(), magic.size()) == 4 &&
         std::string_view(magic.data(), magic.size()) ==
             "\x7f"
             "ELF";
}

}  // namespace

/// For anything but a regular file, the stamp has facts that no regular file can have.
SshConfigSource::Stamp SshConfigSource::StampOf(const std::string& path) {
  struct stat at {};
  if (::stat(path.c_str(), &at) != 0 || !S_ISREG(at.st_mode)) return {path, {-1}};
  return {path,
          {static_cast<int64_t>(at.st_dev), static_cast<int64_t>(at.st_ino), at.st_size,
           at.st_mtim.tv_sec, at.st_mtim.tv_nsec, at.st_ctim.tv_sec, at.st_ctim.tv_nsec}};
}

/// From the files that `ssh -v` lists.
SshConfigSource::Found SshConfigSource::FindClasses(const std::string& verbose) {
  Found found;
  const std::optional<std::vector<std::string>> paths = FilesReadBySsh(verbose);
  if (!paths) found.classes.GiveUp();
  for (const std::string& path : paths.value_or(std::vector<std::string>())) {
    found.files.push_back(StampOf(path));
    // Don't read a pipe: it would be empty by now, or block.
    const bool is_file = found.files.back().facts[0] != -1;
    const Result<std::string> text =
        is_file ? ReadFile(path, kMaxConfigBytes) : Status(ErrorCode::kFileUnreadable, path);
    if (!text.ok()) found.classes.GiveUp();
    found.classes.AddFile(text.value_or(""));
  }
  return found;
}

/// The caller holds mutex_.
bool SshConfigSource::IsFresh() const {
  return found_ && std::chrono::steady_clock::now() <= found_until_ &&
         std::all_of(found_->files.begin(), found_->files.end(),
                     [](const Stamp& file) { return StampOf(file.path) == file; });
}

Result<SshSettings> SshConfigSource::Settings(const SshTarget& target, const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(const Lines lines, LinesFor(target, limit));
  HVDRAY_ASSIGN_OR_RETURN(SshSettings settings,
                          SettingsFromLines(lines, target, overrides_, user_));
  if (settings.needs_openssh.empty()) settings.needs_openssh = NeedByKeys(settings, limit);
  return settings;
}

Result<OpensshNeeds> SshConfigSource::NeedsOfOpenssh(const SshTarget& target,
                                                     const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(const Lines lines, LinesFor(target, limit));
  HVDRAY_ASSIGN_OR_RETURN(const SshSettings settings,
                          SettingsFromLines(lines, target, overrides_, user_));
  OpensshNeeds needs = {.host_key_policy = settings.host_key_policy,
                        .session_options = PlainSessionOptions(lines),
                        .has_forwards = HasForwards(lines),
                        .proxy = Proxy(lines)};
  if (IsAgentSilent(settings, limit)) needs.session_options.emplace_back("IdentityAgent=none");
  return needs;
}

int SshConfigSource::run_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return run_count_;
}

Result<SshConfigSource::Lines> SshConfigSource::LinesFor(const SshTarget& target,
                                                         const SshLimit& limit) {
  if (ssh_program_.empty()) return ReadConfigFiles(target, overrides_, user_);
  Turn turn = TakeTurn(target);
  switch (turn.part) {
    case Part::kOther:
      return *std::move(turn.lines);
    case Part::kFirst:
      return AskFirst(target, limit);
    case Part::kAlone:
      break;
    case Part::kFirstOfClass: {
      Result<Lines> lines = Ask(target, limit);
      PublishAnswer(turn, target.host, lines);
      return lines;
    }
  }
  return Ask(target, limit);
}

SshConfigSource::Turn SshConfigSource::TakeTurn(const SshTarget& target) {
  const TimePoint give_up = std::chrono::steady_clock::now() + kPatience;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (std::optional<Turn> turn = TurnNow(target)) return *std::move(turn);
    if (news_.wait_until(lock, give_up) == std::cv_status::timeout) return {};
  }
}

/// nullopt: wait for another thread. The caller holds mutex_.
std::optional<SshConfigSource::Turn> SshConfigSource::TurnNow(const SshTarget& target) {
  if (is_first_asking_) return std::nullopt;
  if (!IsFresh()) {
    is_first_asking_ = true;
    return Turn{.part = Part::kFirst};
  }
  const std::optional<std::string> key = found_->classes.ClassOf(target);
  if (!key) return Turn{};
  const auto [found, is_new] = answers_.try_emplace(*key);
  if (is_new) return Turn{.part = Part::kFirstOfClass, .class_key = *key, .round = round_};
  const Answer& answer = found->second;
  if (!answer.is_there) return std::nullopt;
  if (!answer.lines) return Turn{};
  std::optional<Lines> lines = LinesForOther(*answer.lines, answer.host, target.host);
  if (!lines) return Turn{};
  return Turn{.part = Part::kOther, .lines = std::move(lines)};
}

/// Also finds the configuration's files and classes.
Result<SshConfigSource::Lines> SshConfigSource::AskFirst(const SshTarget& target,
                                                         const SshLimit& limit) {
  Found none;
  none.classes.GiveUp();
  if (!IsCompiledProgram(ssh_program_)) {
    PublishClasses(target, std::move(none), {});
    return Ask(target, limit);
  }
  Result<std::optional<SshGOutput>> output = Run(target, /*is_verbose=*/true, limit);
  if (output.ok() && *output) {
    PublishClasses(target, FindClasses((*output)->errors), (*output)->lines);
    return std::move((*output)->lines);
  }
  PublishClasses(target, std::move(none), {});
  const bool has_words = output.status().code() == ErrorCode::kSpecInvalid;
  if (!output.ok() && !has_words) return std::move(output).status();
  return Ask(target, limit);  // again, for ssh's message without the output of -v
}

Result<SshConfigSource::Lines> SshConfigSource::Ask(const SshTarget& target,
                                                    const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(std::optional<SshGOutput> output,
                          Run(target, /*is_verbose=*/false, limit));
  if (!output) return ReadConfigFiles(target, overrides_, user_);
  return std::move(output->lines);
}

Result<std::optional<SshGOutput>> SshConfigSource::Run(const SshTarget& target, bool is_verbose,
                                                       const SshLimit& limit) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++run_count_;
  }
  return RunSshG(ssh_program_, target, overrides_, is_verbose, limit);
}

/// `lines`: the answer for `target`; unused when its host has no class.
void SshConfigSource::PublishClasses(const SshTarget& target, Found found, Lines lines) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_first_asking_ = false;
  ++round_;
  answers_.clear();
  const std::optional<std::string> key = found.classes.ClassOf(target);
  if (key) answers_[*key] = {true, target.host, std::move(lines)};
  found_ = std::move(found);
  found_until_ = std::chrono::steady_clock::now() + kFresh;
  news_.notify_all();
}

void SshConfigSource::PublishAnswer(const Turn& turn, const std::string& host,
                                    const Result<Lines>& lines) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (turn.round != round_) return;  // outdated: the files may have changed
  answers_[turn.class_key] = {true, host, lines.ok() ? std::optional<Lines>(*lines) : std::nullopt};
  news_.notify_all();
}

Result<std::optional<SshGOutput>> RunSshG(const std::string& program, const SshTarget& target,
                                          const SshOverrides& overrides, bool is_verbose,
                                          const SshLimit& limit) {
  std::vector<std::string> argv = SshGCommand(program, target, overrides, is_verbose);
  Result<std::optional<ProgramEnd>> end = RunProgram(argv, limit);
  if (end.ok() && *end && (*end)->errors.find(kWantsCommand) != std::string::npos) {
    argv.emplace_back("true");
    end = RunProgram(argv, limit);
  }
  if (!end.ok()) return std::move(end).status().WithContext("ssh -G " + target.host);
  if (!*end) return std::optional<SshGOutput>();
  if ((*end)->wait_status != 0) {
    std::string said = (*end)->errors.substr(0, 400);
    while (said.ends_with('\n') || said.ends_with('\r')) said.pop_back();
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("ssh -G {}: {}", target.host, ShownLine(said)),
                  "fix the SSH configuration");
  }
  return std::optional<SshGOutput>({ParseSshG((*end)->output), std::move((*end)->errors)});
}

bool IsCompiledProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) return IsElf(program);
  const std::string path = Environment::FromProcess().GetOr("PATH", "");
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
    const std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, program);
    if (::access(file.c_str(), X_OK) == 0) return IsElf(file);
  }
  return false;
}

}  // namespace hvdray
