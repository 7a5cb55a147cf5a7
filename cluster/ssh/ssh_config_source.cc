// Who asks ssh, who waits for whose answer; and what the machine's files and keys add to it.
#include "cluster/ssh/ssh_config_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "cluster/ssh/ssh_agent.h"
#include "cluster/ssh/ssh_g.h"
#include "cluster/ssh/ssh_identity.h"

namespace hvdray {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;
/// A host that waits longer for another's answer asks for itself: what keeps that one up (a Match
/// exec, say) may be its own affair.
constexpr Duration kPatience = std::chrono::milliseconds(500);

std::vector<SshConfigLine> ReadConfigFiles(const SshTarget& target, const SshOverrides& overrides,
                                           const SshUser& user) {
  std::vector<std::string> paths = {overrides.config_file};
  if (overrides.config_file.empty()) paths = {user.home + "/.ssh/config", "/etc/ssh/ssh_config"};
  std::vector<SshConfigLine> lines;
  for (const std::string& path : paths) {
    const Result<std::string> text = ReadFile(path, kMaxConfigBytes);
    if (!text.ok()) continue;
    SshConfigRead read = ReadSshConfig(*text, target.host);
    for (const std::string& warning : read.warnings) {
      Log(LogLevel::kWarning, "ssh", "{}: {}", path, warning);
    }
    std::move(read.lines.begin(), read.lines.end(), std::back_inserter(lines));
  }
  return lines;
}

std::vector<SshAgentKey> AgentKeys(const SshSettings& settings, const SshLimit& limit) {
  if (settings.identity_agent.empty()) return {};
  Result<SshAgent> agent = SshAgent::Connect(settings.identity_agent, limit);
  if (!agent.ok()) return {};
  Result<std::vector<SshAgentKey>> keys = agent->Keys(limit);
  return keys.ok() ? std::move(*keys) : std::vector<SshAgentKey>();
}

/// Empty when at least one key will do for libssh2, or when there is none at all: then the error of
/// the authentication says so best.
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
      // The user's own choice, even if it can't be used: its error is what the user has to see.
      is_any_usable = true;
    } else if (reason.empty()) {
      reason = fmt::format("{} is an {} key", path, SshKeyTypeName(identity.facts.type));
    }
    if (settings.has_explicit_identity && path == settings.identity_files[0] && !is_any_usable) {
      return reason;
    }
  }
  if (is_any_usable) return {};
  for (const SshAgentKey& key : AgentKeys(settings, limit)) {
    const bool is_listed = std::find(listed.begin(), listed.end(), key.blob) != listed.end();
    if (settings.identities_only && !is_listed) continue;
    const SshKeyType type = SshKeyTypeOf(AlgorithmOfBlob(key.blob));
    if (type != SshKeyType::kUnknown && CanSignWithLibssh2(type)) return {};
    if (reason.empty()) {
      reason = fmt::format("the agent's key {} is an {} key", key.comment, SshKeyTypeName(type));
    }
  }
  return reason;
}

}  // namespace

/// With facts that no regular file has, where it is none.
SshConfigSource::Stamp SshConfigSource::StampOf(const std::string& path) {
  struct stat at {};
  if (::stat(path.c_str(), &at) != 0 || !S_ISREG(at.st_mode)) return {path, {-1}};
  return {path,
          {static_cast<int64_t>(at.st_dev), static_cast<int64_t>(at.st_ino), at.st_size,
           at.st_mtim.tv_sec, at.st_mtim.tv_nsec, at.st_ctim.tv_sec, at.st_ctim.tv_nsec}};
}

/// Of the files that ssh says it has read.
SshConfigSource::Found SshConfigSource::FindClasses(const std::string& verbose) {
  Found found;
  const std::optional<std::vector<std::string>> paths = FilesReadBySsh(verbose);
  if (!paths) found.classes.GiveUp();
  for (const std::string& path : paths.value_or(std::vector<std::string>())) {
    found.files.push_back(StampOf(path));
    // A pipe would have nothing left, or keep us waiting.
    const bool is_file = found.files.back().facts[0] != -1;
    const Result<std::string> text =
        is_file ? ReadFile(path, kMaxConfigBytes) : Status(ErrorCode::kFileUnreadable, path);
    if (!text.ok()) found.classes.GiveUp();
    found.classes.AddFile(text.ok() ? *text : "");
  }
  return found;
}

/// With mutex_ held.
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

Result<HostKeyPolicy> SshConfigSource::HostKeys(const SshTarget& target, const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(const Lines lines, LinesFor(target, limit));
  HVDRAY_ASSIGN_OR_RETURN(const SshSettings settings,
                          SettingsFromLines(lines, target, overrides_, user_));
  return settings.host_key_policy;
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

/// nullopt: to be waited for. With mutex_ held.
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

/// Also finds out what the configuration consists of.
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
  return Ask(target, limit);  // once more, for ssh's own words without those of -v
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

/// `lines`: the answer for `target`, if there are classes.
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
  if (turn.round != round_) return;  // of files that may have changed since
  answers_[turn.class_key] = {true, host, lines.ok() ? std::optional<Lines>(*lines) : std::nullopt};
  news_.notify_all();
}

}  // namespace hvdray
