// SPDX-License-Identifier: Apache-2.0
// The user's SSH configuration for one host: parses the output of `ssh -G`, or reads the same files
// where ssh is not installed. Pure; ssh_config_source.h runs ssh and opens files.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_

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

/// What ReadSshConfig() found in one file.
struct SshConfigRead {
  std::vector<SshConfigLine> lines;   ///< Those that apply to the host, in the file's order.
  std::vector<std::string> warnings;  ///< "line 3: Match needs the ssh client ...".
};

/// Finds the lines of a configuration file that apply to `host`: those before the first Host and
/// those below a Host with a matching pattern (* and ?, ! excludes). Ignores Include and the lines
/// below Match, both with a warning. Pure. Source: ssh_config(5).
SshConfigRead ReadSshConfig(std::string_view text, std::string_view host);

/// The settings for `target`. For a keyword with a single value the first line wins. Replaces "~"
/// and the tokens %d %h %n %p %r %u %%. Sets needs_openssh as far as the lines alone tell. Pure.
/// Errors: kSpecInvalid for an invalid value.
Result<SshSettings> SettingsFromLines(const std::vector<SshConfigLine>& lines,
                                      const SshTarget& target, const SshOverrides& overrides,
                                      const SshUser& user);

/// True when `pattern` ('*': any run of characters, '?': any one) matches the whole `text`. Takes
/// time proportional to the product of the lengths at most. Pure. Source: ssh_config(5), PATTERNS.
bool MatchesPattern(std::string_view pattern, std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
