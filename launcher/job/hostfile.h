// Host lists as people write them: the -H option and host files of three launchers. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
#define HVDRAY_LAUNCHER_JOB_HOSTFILE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Slots of one host at most; far above any real one, so that a typing error is caught.
inline constexpr int kMaxSlots = 65536;

/// "2" of host:2: decimal digits only, at most kMaxSlots.
std::optional<int> ParseSlots(std::string_view text);

/// "a:2,b:2" of -H, in the order given; white space around an item does not count. Slots may be 0.
/// Beside host:slots an item may be user@host:slots, [IPv6]:slots, node[01-32]:slots and
/// ssh://user@host:port:slots (host_word.h).
/// Errors: kSpecInvalid in Horovod's words for an item that is not host:slots; naming the item for
/// a bad range, user, port, number of slots, over kMaxHosts, and for a plain name that comes twice
/// (DEV: Horovod takes it and gets the topology wrong), be it with another user or port: what
/// workers know of their host is its name alone.
/// Source: Horovod spec 1.2.
Result<std::vector<HostSlots>> ParseHostList(std::string_view list);

/// A host file. A line is one host, or a range of them, and the slots of each: "host slots=N"
/// (Horovod, with white space around the '=' or not), "host slots=N max_slots=M" (Open MPI: `slots`
/// counts and must not be above M), "host:N" (hydra). The host is written as in -H; "user=" and
/// "port=" may stand behind it as well, other key=value words are left alone. A host without slots
/// is refused: Open MPI would take it for one slot or for all cores by its version, hydra for one,
/// Horovod refuses it, so nobody's guess is safe. Blank lines, `#` comments, CRLF and a UTF-8
/// byte-order mark are accepted. `file_name` is only for messages.
/// Errors: kSpecInvalid with file:line:column; for a host listed twice both lines are named; a file
/// without any host.
Result<std::vector<HostSlots>> ParseHostfile(std::string_view text, std::string_view file_name);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
