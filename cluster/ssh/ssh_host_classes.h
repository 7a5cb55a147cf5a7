// Which hosts an SSH configuration can't tell apart: `ssh -G` need be asked for one of them only.
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

/// The configuration files that ssh has read, those of Include among them, from what `ssh -v` says
/// on stderr. Asked of ssh itself: where its system's file lies is compiled in. nullopt: not to be
/// told, for there is none or a name does not stand there whole. Pure.
std::optional<std::vector<std::string>> FilesReadBySsh(std::string_view verbose);

/// Two hosts of one class get the same from `ssh -G`, but for their own name. Careful: whatever
/// could tell hosts apart in ways not followed here (Match, tokens such as %h in values that count,
/// CanonicalizeHostname, quotes in names, lines that are not understood) leaves no classes at all.
/// Pure. Source: ssh_config(5).
class SshHostClasses {
 public:
  /// One of the files that were read. Where it is included, and by whom, does not matter.
  void AddFile(std::string_view text);
  /// From now on each host has to be asked for by itself.
  void GiveUp() { is_understood_ = false; }
  /// nullopt: ask for this host by itself. User and port are part of the class.
  std::optional<std::string> ClassOf(const SshTarget& target) const;

 private:
  bool TakeLine(std::string_view line);

  bool is_understood_ = true;
  /// Of Host, and the values of HostName, which may be the very name that was asked for.
  std::set<std::string, std::less<>> patterns_;
};

/// What `ssh -G` said of `asked`, as it says it of `other`, a host of the same class. nullopt: not
/// to be told, for hosts behind another one: ssh refuses one that is its own way. Pure.
std::optional<std::vector<SshConfigLine>> LinesForOther(std::vector<SshConfigLine> lines,
                                                        const std::string& asked,
                                                        const std::string& other);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_HOST_CLASSES_H_
