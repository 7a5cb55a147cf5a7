// The user's SSH configuration: what applies to a host. As ssh itself tells it where it is
// installed, else by a small reader of the same files. Pure; ssh_config_source.h looks at the
// machine.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// One setting that applies.
struct SshConfigLine {
  std::string keyword;             ///< In lower case.
  std::vector<std::string> words;  ///< At least one; quotes are taken off.
  std::string rest;                ///< All after the keyword, as it stands there.
  bool operator==(const SshConfigLine&) const = default;
};

/// The output of `ssh -G HOST`. Pure; lines without a value are left out.
std::vector<SshConfigLine> ParseSshG(std::string_view output);

struct SshConfigRead {
  std::vector<SshConfigLine> lines;   ///< Those that apply to the host, in the file's order.
  std::vector<std::string> warnings;  ///< "line 3: Match is not understood without ssh ...".
};

/// The lines of a configuration file that apply to `host`: those before the first Host and those
/// below a Host with a matching pattern (* and ?, ! excludes). What stands below Match is left
/// out, as is Include, both with a warning. Pure. Source: ssh_config(5).
SshConfigRead ReadSshConfig(std::string_view text, std::string_view host);

/// The settings for `target`. Of a keyword that has one value the first line counts; "~" and the
/// tokens %d %h %n %p %r %u %% are replaced. Fills needs_openssh with what the lines alone tell.
/// Pure. Errors: kSpecInvalid for a value that makes no sense.
Result<SshSettings> SettingsFromLines(const std::vector<SshConfigLine>& lines,
                                      const SshTarget& target, const SshOverrides& overrides,
                                      const SshUser& user);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONFIG_H_
