// SPDX-License-Identifier: Apache-2.0
// Host lists as people write them: the -H option and host files of three launchers. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
#define HVDRAY_LAUNCHER_JOB_HOSTFILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/placement.h"

namespace hvdray {

// Many host names from one short text: node[01-32]. Pure. The way back is CompressHostList()
// (launcher/driver/host_list.h).

/// Hosts of one list at most, however they are written; a slip in a range must not eat the memory.
inline constexpr size_t kMaxHosts = 100'000;

/// What is wrong with a text about hosts, and where in it.
struct HostFault {
  size_t offset = 0;    ///< Bytes from the start of the text.
  std::string message;  ///< One line.
};

/// ASCII letters, digits, '.', '_', '-' in the length of a DNS name; no leading '-', which would
/// reach ssh as an option.
bool IsHostName(std::string_view name);

/// Appends the names of `pattern` to `names`: a name in which each bracket stands for the numbers
/// and ranges in it, the last bracket running fastest. "n[1,3]x[08-10]" is n1x08 n1x09 n1x10 n3x08
/// and so on. Leading zeros of a range's first number are its width. Returns what is wrong, or
/// nullopt; then `names` is as before: no host name, a reversed range, ends that are padded
/// differently, more than `room` names. A name may come twice ("n[1,1]").
/// Source of the form: Slurm's host lists.
std::optional<HostFault> ExpandHostRange(std::string_view pattern, size_t room,
                                         std::vector<std::string>* names);

/// Pieces of `list` between commas that are outside brackets; one empty piece for an empty list.
/// They are views into it.
std::vector<std::string_view> SplitHostItems(std::string_view list);

/// Slots of one host at most; far above any real one, so that a typing error is caught.
inline constexpr int kMaxSlots = 65536;

/// "2" of host:2: decimal digits only, at most kMaxSlots.
std::optional<int> ParseSlots(std::string_view text);

/// "a:2,b:2" of -H, in the order given; white space around an item does not count. Slots may be 0.
/// Beside host:slots an item may be user@host:slots, [IPv6]:slots, node[01-32]:slots and
/// ssh://user@host:port:slots.
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

// One word that names hosts: [ssh://][user@]host[:port][:slots], in -H and in host files. Pure.

/// A word taken apart. Views point into it.
struct HostWord {
  std::string_view user;                  ///< Empty: none.
  std::string_view names;                 ///< May have ranges; IPv6 without its brackets.
  size_t names_offset = 0;                ///< Where `names` (or its bracket) begins in the word.
  bool is_ipv6 = false;                   ///< [address] or [address%zone]
  uint16_t port = 0;                      ///< 0: none.
  std::optional<std::string_view> slots;  ///< As written, unchecked.
  size_t slots_offset = 0;
};

/// "host", "user@host", "[fe80::1]", each with ":slots" or without. What follows a plain host is
/// its slots, as in Horovod and hydra; only behind "ssh://" the first number is a port:
/// "ssh://user@host:2222:4", "ssh://host:2222". The host itself is checked by HostsOf().
/// Returns what is wrong, or nullopt: user, port, brackets of an address.
std::optional<HostFault> ParseHostWord(std::string_view text, HostWord* word);

/// Port of "2222"; nullopt unless within 1 to 65535.
std::optional<uint16_t> ParsePort(std::string_view text);

/// ASCII letters, digits, '.', '_', '-', '+'; up to 64 bytes, no leading '-'.
bool IsUserName(std::string_view user);

/// All hosts of the word, each with `slots`, at most `room`, appended to `hosts`. Returns what is
/// wrong with the names, as ExpandHostRange() does.
std::optional<HostFault> AppendHosts(const HostWord& word, int slots, size_t room,
                                     std::vector<HostSlots>* hosts);

/// A host of which only a name or an address is known, IPv6 without brackets. Its plain name is
/// `name`, but for IPv6: canonical, with '-' for each ':', '0' in front of a leading and behind a
/// trailing "--", and '_' for the '%' of a zone: "fe80::1%eth0" is fe80--1_eth0, "::1" is 0--1.
/// So it is the same for all spellings of an address, and Horovod, which cuts at colons, takes it.
HostSlots MakeHostSlots(std::string_view name, int slots);

/// The word for one host, which -H reads back as the same: "ssh://user@[fe80::1]:2222:4".
std::string HostText(const HostSlots& host);

// What a host discovery script printed. Pure.

/// A host a line, "host" or "host:slots", written as in -H (user@host, [IPv6], node[01-32],
/// ssh://host:port:slots). Blanks around a line, empty lines and CRLF do not count; no line at all
/// is a list without hosts. `default_slots`: of a host without a number (--slots-per-host).
/// A host that comes again keeps its place; its first line counts, and if the others say something
/// else `*warning` says which (a job that runs does not end for that).
/// Errors: kSpecInvalid "line N: …": garbage, too many colons, no number, over kMaxSlots or
/// kMaxHosts, a host without slots and no default. Then nothing of the list is taken: half a list
/// would look like hosts that are gone.
/// Source: Horovod spec 3.2.
Result<std::vector<HostSlots>> ParseDiscoveredHosts(std::string_view text,
                                                    std::optional<int> default_slots,
                                                    std::string* warning);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOSTFILE_H_
