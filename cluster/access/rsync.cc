// SPDX-License-Identifier: Apache-2.0
// `hvdray rsync-up FILE` and `hvdray rsync-down FILE`: the system's rsync, or what `hvdray run
// --sync` does.
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rsync_filter.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/access/actions.h"
#include "cluster/access/cluster_access.h"
#include "cluster/transport/rsync_words.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/job_files.h"
#include "launcher/plan/job_ssh.h"

namespace hvdray {
namespace {

// rsync's codes when ssh ended before it.
constexpr int kProtocolBroken = 12;

std::string Joined(const std::vector<std::string>& lines) {
  return lines.empty() ? "no message" : fmt::format("{}", fmt::join(lines, "; "));
}

/// "data" of "/a/data".
std::string Name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// On this machine, too, a path of the cluster's side is below the home directory, where rsync over
/// ssh begins.
std::string BelowHome(const std::string& path) {
  if (path == "~") return ExpandedHome(path) + "/";
  const std::string expanded = ExpandedHome(path);
  return expanded.starts_with('/') ? expanded : ExpandedHome("~") + "/" + expanded;
}

/// The copier of one host at a time.
class Copier {
 public:
  Copier(const ClusterAccess& access, RunJobFn run) : access_(access), run_(std::move(run)) {}

  /// 0, or 128 + signal.
  Result<int> Copy(RsyncCopy copy, const ClusterNode& node) {
    const bool is_here = IsHere(access_, node);
    if (is_here) {
      std::string& theirs = copy.is_down ? copy.source : copy.target;
      theirs = BelowHome(theirs);
      std::error_code ignored;  // rsync says what is missing
      if (copy.makes_parent) {
        const std::filesystem::path target(theirs.substr(0, theirs.find_last_not_of('/') + 1));
        std::filesystem::create_directories(target.parent_path(), ignored);
      }
    } else {
      copy.host = node.host.dial_name();
    }
    copy.excludes = access_.file.rsync_exclude;
    copy.filters = access_.file.rsync_filter;
    OpensshOptions ssh;
    if (!is_here) ssh = OpensshOptionsFor(access_.spec, node.host);
    ssh.may_ask = IsUserAtTerminal();
    const Result<ProcessEnd> run = RunInForeground(RsyncArgv(copy, ssh), ErrorsOf::kAreKept);
    if (!run.ok() && run.status().code() == ErrorCode::kAgentStartFailed) {
      return WithoutRsync(copy, node, "rsync is not installed here");
    }
    if (!run.ok()) return run.status();
    if (run->exit_code == 0) return 0;
    if (run->signo != 0) return 128 + run->signo;
    if (SaysRsyncIsMissing(run->exit_code, run->error_lines)) {
      return WithoutRsync(copy, node, "rsync is not installed on " + node.address);
    }
    const Status how(ErrorCode::kSyncFailed, fmt::format("rsync exited with code {}: {}",
                                                         run->exit_code, Joined(run->error_lines)));
    if (run->exit_code != kSshFailed && run->exit_code != kProtocolBroken) {
      return Status(how).WithContext(node.address);
    }
    Status why = ExplainOpenssh(how, run->error_lines, ssh.proxy);
    const bool is_known = why.code() != ErrorCode::kAgentStartFailed;
    return (is_known ? std::move(why) : Status(how)).WithContext(node.address);
  }

 private:
  /// A file goes as `submit` sends its script, a directory as --sync copies one.
  Result<int> WithoutRsync(const RsyncCopy& copy, const ClusterNode& node, const std::string& why) {
    if (copy.is_down) {
      return Status(ErrorCode::kNotSupported, fmt::format("rsync-down needs rsync, and {}", why),
                    "install rsync on both sides");
    }
    std::string target = copy.target;
    if (target == "~") target.clear();
    if (target.starts_with("~/")) target.erase(0, 2);
    const bool is_into = target.empty() || target.ends_with('/');
    const bool is_directory = IsDirectory(copy.source);
    const bool is_whole = !is_directory || !copy.source.ends_with('/');
    const RsyncFilter excludes{std::span(copy.excludes)};
    if (is_whole && excludes.Match(Name(copy.source), is_directory) == IgnoreVerdict::kIgnored) {
      return 0;
    }
    if (!is_directory) {
      if (is_into) target += Name(copy.source);
      HVDRAY_RETURN_IF_ERROR(PutFile(access_, node, /*place=*/{}, copy.source, target,
                                     PutFor::kUser, is_into ? "" : Name(copy.source)));
      return 0;
    }
    // A -H of `hvdray run` has no place for a proxy command, nor for the name of a host key.
    if (IsHere(access_, node) || !access_.spec.ssh_proxy_command->empty() ||
        !node.host.address.host_key_alias.empty()) {
      return Status(ErrorCode::kNotSupported, why, "install rsync on both sides");
    }
    Tell(LogLevel::kInfo, "hvdray " + access_.command,
         fmt::format("{}: {} goes as with hvdray run --sync", why, copy.source));
    // As rsync: "dir" arrives below the target, "dir/" as the target.
    if (is_whole) target += (is_into ? "" : "/") + Name(copy.source);
    DirectoryRules rules;
    rules.patterns = PatternRule::kRsync;
    rules.ignore_files = copy.filters;
    rules.excludes = copy.excludes;
    rules.way_out = "leave it out by rsync_exclude";
    if (is_whole) rules.top = Name(copy.source) + "/";
    return RunSync(copy.source, target, node.address, rules);
  }

  Result<int> RunSync(const std::string& source, const std::string& target, const std::string& host,
                      const DirectoryRules& rules) {
    const JobSpec& spec = access_.spec;
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    const std::string login = spec.ssh_user->empty() ? name : *spec.ssh_user + "@" + name;
    std::vector<std::string> words = {
        "-H", login + ":1", "-np", "1", "--quiet", "--sync", fmt::format("{}:{}", source, target)};
    if (!spec.ssh_identity_file->empty()) {
      words.insert(words.end(), {"--ssh-identity-file", *spec.ssh_identity_file});
    }
    if (!spec.ssh_config_file->empty()) {
      words.insert(words.end(), {"--ssh-config", *spec.ssh_config_file});
    }
    words.insert(words.end(), {"--", "/bin/sh", "-c", ":"});
    const int code = run_(words, rules);
    if (code == 0 || code > 128) return code;
    return Status(ErrorCode::kSyncFailed, fmt::format("{}: copy of {}: see above", host, source));
  }

  const ClusterAccess& access_;
  const RunJobFn run_;
};

Result<std::vector<ClusterNode>> Targets(ClusterAccess& access, bool is_all) {
  HVDRAY_RETURN_IF_ERROR(FindNodes(access));
  HVDRAY_ASSIGN_OR_RETURN(ClusterNode head, ResolveHead(access));
  std::vector<ClusterNode> nodes = {std::move(head)};
  const std::vector<ClusterNode>& workers = access.nodes.workers;
  if (is_all) nodes.insert(nodes.end(), workers.begin(), workers.end());
  return nodes;
}

/// The file_mounts of the file: a directory becomes the directory of that name there.
std::vector<RsyncCopy> MountsOf(const ClusterSpec& file) {
  std::vector<RsyncCopy> copies;
  copies.reserve(file.file_mounts.size());
  for (const ClusterFileMount& mount : file.file_mounts) {
    RsyncCopy copy;
    copy.source = ExpandedHome(mount.local);
    copy.target = mount.remote;
    copy.makes_parent = true;
    if (IsDirectory(copy.source)) {
      if (!copy.source.ends_with('/')) copy.source += '/';
      if (!copy.target.ends_with('/')) copy.target += '/';
    }
    copies.push_back(std::move(copy));
  }
  return copies;
}

/// An empty word, of a variable that is not set, would be the whole home directory for rsync.
Status CheckPlaces(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].empty()) continue;
    return {ErrorCode::kUsage, fmt::format("{} must not be empty", i == 1 ? "SOURCE" : "TARGET"),
            "the home directory there is ~/, the current one here is ."};
  }
  return {};
}

/// What is copied here must not replace what the copy is made with.
Status CheckTarget(const ClusterAccess& access, const CommandRequest& request) {
  const std::string& target = request.arguments[2];
  const std::string file =
      IsDirectory(target) ? fmt::format("{}/{}", target, Name(request.arguments[1])) : target;
  MoreInputs inputs;
  inputs.Add("the cluster file", access.path);
  return CheckNotRead(LookAtFile("TARGET", file), access.spec, Environment::FromProcess(), inputs);
}

}  // namespace

Result<int> RsyncUp(ClusterAccess& access, const CommandRequest& request, const RunJobFn& run) {
  const std::vector<std::string>& words = request.arguments;
  if (words.size() == 2) return Status(ErrorCode::kUsage, "SOURCE without TARGET");
  HVDRAY_RETURN_IF_ERROR(CheckPlaces(words));
  std::vector<RsyncCopy> copies;
  if (words.size() == 3) {
    RsyncCopy copy;
    copy.source = words[1];
    copy.target = words[2];
    struct stat info {};
    if (::stat(copy.source.c_str(), &info) != 0) {
      return Status(ErrorCode::kFileUnreadable,
                    fmt::format("no file or directory {}", copy.source));
    }
    copies.push_back(std::move(copy));
  } else {
    copies = MountsOf(access.file);
    if (copies.empty()) {
      return Status(ErrorCode::kUsage, fmt::format("{} has no file_mounts", access.path),
                    fmt::format("hvdray rsync-up {} SOURCE TARGET", access.words));
    }
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterNode> nodes,
                          Targets(access, request.Has(OptionId::kAllNodes)));
  Copier copier(access, run);
  int first_failure = 0;
  for (const ClusterNode& node : nodes) {
    for (const RsyncCopy& copy : copies) {
      Result<int> code = copier.Copy(copy, node);
      if (code.ok() && *code == 0) continue;
      if (code.ok() && *code > 128) return code;  // a signal is meant for all
      const int failure = code.ok() ? *code : Fail(access.command, code.status());
      if (first_failure == 0) first_failure = failure;
      break;
    }
  }
  return first_failure;
}

Result<int> RsyncDown(ClusterAccess& access, const CommandRequest& request) {
  if (request.arguments.size() != 3) {
    return Status(ErrorCode::kUsage, "SOURCE and TARGET are needed",
                  fmt::format("hvdray rsync-down {} '~/results' ./results", access.words));
  }
  HVDRAY_RETURN_IF_ERROR(CheckPlaces(request.arguments));
  HVDRAY_RETURN_IF_ERROR(CheckTarget(access, request));
  HVDRAY_RETURN_IF_ERROR(FindNodes(access));
  HVDRAY_ASSIGN_OR_RETURN(const ClusterNode head, ResolveHead(access));
  RsyncCopy copy;
  copy.source = request.arguments[1];
  copy.target = request.arguments[2];
  copy.is_down = true;
  return Copier(access, {}).Copy(std::move(copy), head);
}

}  // namespace hvdray
