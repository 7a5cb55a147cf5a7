// One word that names hosts: [ssh://][user@]host[:port][:slots], in -H and in host files. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOST_WORD_H_
#define HVDRAY_LAUNCHER_JOB_HOST_WORD_H_

#include <optional>
#include <string>
#include <string_view>

#include "launcher/job/host_range.h"
#include "launcher/job/placement.h"

namespace hvdray {

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

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOST_WORD_H_
