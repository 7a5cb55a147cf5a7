// SPDX-License-Identifier: Apache-2.0
// The user's SSH configuration for one host: parses the output of `ssh -G`, or reads the same files
// where ssh is not installed. Groups hosts that the configuration can't tell apart, so that `ssh
// -G` runs for one of them only. Pure; ssh_config_source.h runs ssh and opens files.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// One setting that applies to the host.
struct SshConfigLine {
  std::string keyword;             ///< In lower case.
  std::vector<std::string> words;  ///< At least one, unquoted.
  std::string rest;                ///< All text after the keyword, unchanged.
  bool operator==(const SshConfigLine&) const = default;
};

/// Parses the output of `ssh -G HOST`. Skips lines without a value. Pure.
std::vector<SshConfigLine> ParseSshG(std::string_view output);

/// Finds the lines of a configuration file that apply to `host`: those before the first Host and
/// those below a Host with a matching pattern (* and ?, ! excludes). Ignores Include and the lines
/// below Match, and appends a warning for each to `warnings` ("line 3: Match needs …"). Returns the
/// lines in the file's order. Pure. Source: ssh_config(5).
std::vector<SshConfigLine> ReadSshConfig(std::string_view text, std::string_view host,
                                         std::vector<std::string>& warnings);

/// The settings for `target`. For a keyword with a single value the first line wins. Replaces "~"
/// and the tokens %d %h %n %p %r %u %%. Sets needs_openssh as far as the lines alone tell. Pure.
/// Errors: kSpecInvalid for an invalid value.
Result<SshSettings> SettingsFromLines(const std::vector<SshConfigLine>& lines,
                                      const SshTarget& target, const SshOverrides& overrides,
                                      const SshUser& user);

/// What `lines`, the output of `ssh -G`, make of a session, undone: a command or a subsystem
/// instead of ours, no session at all, ssh in the background or without stdin, a question to the
/// user. Has only options that the lines set, since older versions of ssh don't know all of them.
/// Pure.
std::vector<std::string> PlainSessionOptions(const std::vector<SshConfigLine>& lines);

/// True when the lines forward ports. Pure.
bool HasForwards(const std::vector<SshConfigLine>& lines);

/// What the lines reach the host through: "ProxyJump bastion", "ProxyCommand nc %h %p"; empty: the
/// host is dialled. Pure.
std::string Proxy(const std::vector<SshConfigLine>& lines);

/// True when `pattern` ('*': any run of characters, '?': any one) matches the whole `text`. Takes
/// time proportional to the product of the lengths at most. Pure. Source: ssh_config(5), PATTERNS.
bool MatchesPattern(std::string_view pattern, std::string_view text);

/// The configuration files that ssh read, including those of Include, from the stderr of `ssh -v`.
/// Only ssh knows them: the path of the system's file is compiled in. nullopt: unknown, because
/// there is no file or a name is cut off or escaped. Pure.
std::optional<std::vector<std::string>> FilesReadBySsh(std::string_view verbose);

/// For two hosts of one class, `ssh -G` prints the same except for their names. Conservative: when
/// the configuration could tell hosts apart in another way (Match, tokens such as %h in relevant
/// values, CanonicalizeHostname, quotes in names, unknown syntax), there are no classes at all.
/// Pure. Source: ssh_config(5).
class SshHostClasses {
 public:
  /// Adds the text of one file that ssh read, in any order.
  void AddFile(std::string_view text);
  /// From now on ClassOf() returns nullopt for all hosts.
  void GiveUp() { is_understood_ = false; }
  /// User and port are part of the class. nullopt: run ssh for this host separately.
  std::optional<std::string> ClassOf(const SshTarget& target) const;

 private:
  bool TakeLine(std::string_view line);

  bool is_understood_ = true;
  /// Patterns of Host, and values of HostName, since one may equal the name of a host.
  std::set<std::string, std::less<>> patterns_;
};

/// Rewrites the output of `ssh -G` for `asked` to that for `other`, a host of the same class.
/// nullopt: unknown, for hosts behind a jump host, since ssh refuses a host that is its own jump
/// host. Pure.
std::optional<std::vector<SshConfigLine>> LinesForOther(std::vector<SshConfigLine> lines,
                                                        const std::string& asked,
                                                        const std::string& other);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
