// SPDX-License-Identifier: Apache-2.0
// Hosts as people write them: the -H option, the host files of three launchers, and what a
// discovery script prints; and many host names as one short text. A word names one host or a range:
// [ssh://][user@]host[:port][:slots]. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
#define HVDRAY_LAUNCHER_JOB_HOSTFILE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Most hosts of a list, however they are written; bounds what a slip in a range can allocate.
inline constexpr size_t kMaxHosts = 100'000;

/// What is wrong with a text about hosts, and where.
struct HostFault {
  size_t offset = 0;    ///< Bytes from the start of the text.
  std::string message;  ///< One line.
};

/// True for ASCII letters, digits, '.', '_', '-', up to the length of a DNS name, without a leading
/// '-', which ssh would take for an option.
bool IsHostName(std::string_view name);

/// Appends the names of `pattern` to `names`. Each bracket stands for the numbers and ranges in it,
/// and the last bracket varies fastest: "n[1,3]x[08-10]" is n1x08 n1x09 n1x10 n3x08 and so on. The
/// first number of a range gives its width. A name may come twice ("n[1,1]"). Returns what is wrong
/// (not a host name, a reversed range, ends padded differently, more than `room` names) and leaves
/// `names` unchanged, or nullopt. It counts before it expands, so no text costs more memory than
/// its names. The form is Slurm's; CompressHostList() is the inverse.
std::optional<HostFault> ExpandHostRange(std::string_view pattern, size_t room,
                                         std::vector<std::string>* names);

/// Splits `list` at the commas outside brackets; one empty item for an empty list. Views into
/// `list`.
std::vector<std::string_view> SplitHostItems(std::string_view list);

/// Most slots of a host; far above any real one, so that it catches a typing error.
inline constexpr int kMaxSlots = 65536;

/// "2" of host:2: decimal digits only, at most kMaxSlots.
std::optional<int> ParseSlots(std::string_view text);

/// The hosts of -H, "a:2,b:2", in the order given, without white space around an item. Slots may be
/// 0. Besides host:slots, an item may be user@host:slots, [IPv6]:slots, node[01-32]:slots or
/// ssh://user@host:port:slots.
/// Errors: kSpecInvalid. Horovod's words for an item that is not host:slots; otherwise the item,
/// for a bad range, user, port or number of slots, for more than kMaxHosts, and for a name that
/// comes twice, even with another user or port: workers know a host by its name alone, and Horovod,
/// which accepts such a list, gets the topology wrong.
Result<std::vector<HostSlots>> ParseHostList(std::string_view list);

/// The hosts of a host file. Each line has one host, or a range of them, and its slots: "host
/// slots=N" (Horovod, with or without white space around the '='), "host slots=N max_slots=M" (Open
/// MPI: `slots` counts and must not exceed M) or "host:N" (hydra). The host is written as in -H;
/// "user=" and "port=" may follow it. Other key=value words are ignored, unless they look like a
/// misspelling. Blank lines, `#` comments, CRLF and a UTF-8 byte-order mark are accepted. A host
/// without slots has `default_slots` (--slots-per-host), else one, but no more than its max_slots;
/// a line that is a name alone may be repeated and adds as many (mpirun's rule, and the form of
/// PBS_NODEFILE). `file_name`: for messages. Errors: kSpecInvalid with file:line:column; both lines
/// for a host listed twice; a file without hosts.
Result<std::vector<HostSlots>> ParseHostfile(std::string_view text, std::string_view file_name,
                                             std::optional<int> default_slots = {});

/// True for up to 64 ASCII letters, digits, '.', '_', '-', '+', without a leading '-'.
bool IsUserName(std::string_view user);

/// The host with this name or address (IPv6 without brackets). Its plain name is `name`, except for
/// an IPv6 address: the canonical form, with '-' for each ':', a '0' before a leading and after a
/// trailing "--", and '_' for the '%' of a zone: "fe80::1%eth0" is fe80--1_eth0, "::1" is 0--1.
/// That name is the same for all spellings of an address, and Horovod, which splits at colons,
/// accepts it.
HostSlots MakeHostSlots(std::string_view name, int slots);

/// The word that -H reads back as the same host: "ssh://user@[fe80::1]:2222:4".
std::string HostText(const HostSlots& host);

/// Whom messages about a list of hosts name.
enum class HostFinder : uint8_t { kScript, kClient };

/// The hosts that a discovery script printed, one per line: "host" or "host:slots", written as in
/// -H. Blanks around a line, empty lines and CRLF are ignored; no line at all is a list without
/// hosts. `default_slots`: of a host without a number (--slots-per-host). A host that comes again
/// keeps its place and its first line counts; if a later line differs, `*warning` says so, since a
/// running job must not end for that. Errors: kSpecInvalid "line N: …" for a line that names no
/// host, a bad number, more than kMaxSlots or kMaxHosts, and a host without slots if there is no
/// default. Then nothing of the list counts: half a list would look as if hosts had gone.
/// `finder`: who says so, a script or a client of `hvdray serve`.
Result<std::vector<HostSlots>> ParseDiscoveredHosts(std::string_view text,
                                                    std::optional<int> default_slots,
                                                    std::string* warning,
                                                    HostFinder finder = HostFinder::kScript);

/// "node[003-005,9],gpu1.example.org": folds names that differ in one number only, in order of
/// first appearance; duplicates count once. The number is the last one of the first label, or of
/// the whole name if it is an IPv4 address; leading zeros are kept. Writes at most `max_groups`
/// groups with as many ranges each, then "and N more".
std::string CompressHostList(std::span<const std::string> hosts, size_t max_groups = 16);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
