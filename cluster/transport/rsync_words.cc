// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/rsync_words.h"

#include <algorithm>

#include "cluster/transport/agent_bootstrap.h"

namespace hvdray {
namespace {

/// A word of --rsh, which rsync splits at blanks; a quote within quotes is doubled.
std::string RshWord(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::string RemotePath(std::string_view host, std::string_view path) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  std::string place = is_v6 ? "[" + std::string(host) + "]:" : std::string(host) + ":";
  if (path == "~") return place + "./";
  if (path.starts_with("~/")) path.remove_prefix(2);
  return place.append(path);
}

/// "a/b" of "~/a/b/c" and of "a/b/c/".
std::string ParentOf(std::string_view path) {
  if (path.starts_with("~/")) path.remove_prefix(2);
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

/// So that rsync takes it neither for an option nor for "host:path".
std::string LocalPath(const std::string& path) {
  const bool is_plain = path.starts_with('/') || path.starts_with("./") || path.starts_with("../");
  return is_plain ? path : "./" + path;
}

}  // namespace

std::vector<std::string> RsyncArgv(const RsyncCopy& copy, const OpensshOptions& ssh) {
  std::vector<std::string> argv = {"rsync", "-az"};
  if (!copy.host.empty()) {
    std::string shell;
    for (const std::string& word : OpensshWords(ssh)) {
      shell += (shell.empty() ? "" : " ") + RshWord(word);
    }
    argv.push_back("--rsh=" + shell);
  }
  for (const std::string& pattern : copy.excludes) argv.push_back("--exclude=" + pattern);
  for (const std::string& name : copy.filters) argv.push_back("--filter=dir-merge,- " + name);
  if (copy.makes_parent && !copy.host.empty()) {
    argv.push_back("--rsync-path=mkdir -p " + ShellQuoted(ParentOf(copy.target)) + " && rsync");
  }
  argv.emplace_back("--");
  const bool is_here = copy.host.empty();
  argv.push_back(copy.is_down && !is_here ? RemotePath(copy.host, copy.source)
                                          : LocalPath(copy.source));
  argv.push_back(copy.is_down || is_here ? LocalPath(copy.target)
                                         : RemotePath(copy.host, copy.target));
  return argv;
}

bool SaysRsyncIsMissing(int exit_code, const std::vector<std::string>& lines) {
  // 127 from the shell there; some shells end in a code that rsync reports as 12.
  return (exit_code == 127 || exit_code == 12) &&
         std::ranges::any_of(lines, [](const std::string& line) {
           return line.find("not found") != std::string::npos;
         });
}

}  // namespace hvdray
