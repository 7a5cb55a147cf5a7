// SPDX-License-Identifier: Apache-2.0
// Groups hosts that an SSH configuration can't tell apart, so that `ssh -G` runs for one of them
// only.
#ifndef HVDRAY_CLUSTER_SSH_SSH_HOST_CLASSES_H_
#define HVDRAY_CLUSTER_SSH_SSH_HOST_CLASSES_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/ssh/ssh_config.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

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

#endif  // HVDRAY_CLUSTER_SSH_SSH_HOST_CLASSES_H_
