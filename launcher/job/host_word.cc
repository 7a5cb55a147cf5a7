#include "launcher/job/host_word.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr std::string_view kScheme = "ssh://";
constexpr size_t kMaxUserBytes = 64;
constexpr size_t kMaxZoneBytes = 15;  // Of an interface name on Linux.

/// Address and zone of "fe80::1%eth0"; the zone may be empty.
struct Ipv6 {
  std::string canonical;
  std::string_view zone;
};

std::optional<Ipv6> ParseIpv6(std::string_view text) {
  const size_t percent = text.find('%');
  const std::string number(text.substr(0, percent));
  in6_addr binary{};
  if (number.find('\0') != std::string::npos ||
      ::inet_pton(AF_INET6, number.c_str(), &binary) != 1) {
    return std::nullopt;
  }
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  ::inet_ntop(AF_INET6, &binary, canonical.data(), canonical.size());
  Ipv6 address{canonical.data(), {}};
  if (percent == std::string_view::npos) return address;
  address.zone = text.substr(percent + 1);
  if (!IsHostName(address.zone) || address.zone.size() > kMaxZoneBytes) return std::nullopt;
  return address;
}

/// Names are cut at ':', and a leading '-' would be an option of ssh.
std::string PlainNameOf(const Ipv6& address) {
  std::string name = address.canonical;
  if (name.starts_with(':')) name.insert(0, "0");
  if (name.ends_with(':')) name += '0';
  std::replace(name.begin(), name.end(), ':', '-');
  return address.zone.empty() ? name : fmt::format("{}_{}", name, address.zone);
}

/// Takes the user off the front of `*rest`.
std::optional<HostFault> ParseUser(std::string_view* rest, size_t* at, HostWord* word) {
  const size_t sign = rest->rfind('@');
  if (sign == std::string_view::npos) return std::nullopt;
  word->user = rest->substr(0, sign);
  if (!IsUserName(word->user)) {
    return HostFault{*at, fmt::format("'{}' is not a user name", ShownText(word->user))};
  }
  rest->remove_prefix(sign + 1);
  *at += sign + 1;
  return std::nullopt;
}

/// Takes the host off the front of `*rest`, so that it is empty or begins with ':'.
std::optional<HostFault> ParseName(std::string_view* rest, size_t* at, HostWord* word) {
  word->names_offset = *at;
  const size_t close = rest->find(']');
  const std::string_view bracket = rest->substr(0, close);
  if (bracket.starts_with('[') && bracket.find(':') != std::string_view::npos) {
    word->names = bracket.substr(1);
    word->is_ipv6 = close != std::string_view::npos && ParseIpv6(word->names).has_value();
    const std::string_view after = word->is_ipv6 ? rest->substr(close + 1) : "";
    if (!word->is_ipv6 || !(after.empty() || after[0] == ':')) {
      return HostFault{*at,
                       fmt::format("'{}' is not an IPv6 address in brackets", ShownText(*rest))};
    }
    *rest = after;
    *at += close + 1;
    return std::nullopt;
  }
  word->names = rest->substr(0, rest->find(':'));
  rest->remove_prefix(word->names.size());
  *at += word->names.size();
  return std::nullopt;
}

/// ":2222" or ":2222:4" behind "ssh://".
std::optional<HostFault> ParsePortPart(std::string_view* rest, size_t* at, HostWord* word) {
  if (rest->empty()) return std::nullopt;
  const std::string_view text = rest->substr(1, rest->find(':', 1) - 1);
  const std::optional<uint16_t> port = ParsePort(text);
  if (!port) {
    return HostFault{*at + 1, fmt::format("port '{}' is not within 1 to 65535", ShownText(text))};
  }
  word->port = *port;
  rest->remove_prefix(1 + text.size());
  *at += 1 + text.size();
  return std::nullopt;
}

}  // namespace

std::optional<uint16_t> ParsePort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

bool IsUserName(std::string_view user) {
  return !user.empty() && user.size() <= kMaxUserBytes && user[0] != '-' &&
         std::all_of(user.begin(), user.end(), [](char c) {
           return c == '+' || IsHostName(std::string{'a', c});
         });
}

std::optional<HostFault> ParseHostWord(std::string_view text, HostWord* word) {
  *word = HostWord();
  std::string_view rest = text;
  size_t at = 0;
  const bool has_scheme = text.starts_with(kScheme);
  if (has_scheme) {
    rest.remove_prefix(kScheme.size());
    at = kScheme.size();
  }
  if (auto fault = ParseUser(&rest, &at, word)) return fault;
  if (auto fault = ParseName(&rest, &at, word)) return fault;
  if (has_scheme) {
    if (auto fault = ParsePortPart(&rest, &at, word)) return fault;
  }
  if (!rest.empty()) {
    word->slots = rest.substr(1);
    word->slots_offset = at + 1;
  }
  return std::nullopt;
}

std::optional<HostFault> AppendHosts(const HostWord& word, int slots, size_t room,
                                     std::vector<HostSlots>* hosts) {
  std::vector<std::string> names;
  if (word.is_ipv6) {
    names.emplace_back(word.names);
  } else if (auto fault = ExpandHostRange(word.names, room, &names)) {
    return HostFault{fault->offset + word.names_offset, fault->message};
  }
  if (names.size() > room) {
    return HostFault{word.names_offset, fmt::format("over {} hosts", kMaxHosts)};
  }
  for (const std::string& name : names) {
    HostSlots host = MakeHostSlots(name, slots);
    host.address.user = word.user;
    host.address.port = word.port;
    hosts->push_back(std::move(host));
  }
  return std::nullopt;
}

HostSlots MakeHostSlots(std::string_view name, int slots) {
  HostSlots host{std::string(name), slots};
  const std::optional<Ipv6> address =
      name.find(':') == std::string_view::npos ? std::nullopt : ParseIpv6(name);
  if (!address) return host;
  host.host = PlainNameOf(*address);
  host.address.name = address->canonical;
  if (!address->zone.empty()) host.address.name += fmt::format("%{}", address->zone);
  return host;
}

std::string HostText(const HostSlots& host) {
  const HostAddress& address = host.address;
  return fmt::format("{}{}{}{}{}:{}", address.port == 0 ? "" : kScheme, address.user,
                     address.user.empty() ? "" : "@",
                     address.name.empty() ? host.host : fmt::format("[{}]", address.name),
                     address.port == 0 ? "" : fmt::format(":{}", address.port), host.slots);
}

}  // namespace hvdray
