// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/nic_select.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/tcp_address.h"
#include "base/text.h"

namespace hvdray {
namespace {

using wire::InterfaceFacts;

/// An interface with its first address, which is the one that Gloo takes.
struct Candidate {
  const InterfaceFacts* facts = nullptr;
  uint32_t address = 0;  // Host byte order.
  uint32_t mask = 0;
  bool is_distinct = true;       // No other host has this address.
  bool is_subnet_shared = true;  // Every other host has a candidate in its subnet.
};

/// The candidates of one host.
struct HostCandidates {
  const HostNics* nics = nullptr;
  std::vector<Candidate> candidates;
};

std::optional<uint32_t> ParseIpv4(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

uint32_t MaskOf(int prefix_length) {
  if (prefix_length <= 0 || prefix_length > 32) return ~uint32_t{0};
  return ~uint32_t{0} << (32 - prefix_length);
}

bool IsLinkLocal(uint32_t address) { return (address >> 16) == 0xA9FE; }  // 169.254/16

/// nullopt: the interface is down or has no IPv4 address.
std::optional<Candidate> Usable(const InterfaceFacts& facts) {
  if (!facts.is_up || facts.addresses.empty()) return std::nullopt;
  const std::optional<uint32_t> address = ParseIpv4(facts.addresses[0].address);
  if (!address) return std::nullopt;
  return Candidate{
      .facts = &facts, .address = *address, .mask = MaskOf(facts.addresses[0].prefix_length)};
}

std::string Show(const InterfaceFacts& facts) {
  std::string text = facts.name;
  if (!facts.is_up) return text + " (down)";
  return facts.addresses.empty() ? text + " (no IPv4 address)" : text;
}

std::string ShowAll(std::span<const InterfaceFacts> interfaces) {
  if (interfaces.empty()) return "none";
  std::vector<std::string> names;
  for (const InterfaceFacts& facts : interfaces) names.push_back(Show(facts));
  return fmt::format("{}", fmt::join(names, ", "));
}

Status NoInterface(const HostNics& host, std::string_view what, std::string_view hint = {}) {
  return {
      ErrorCode::kNoUsableInterface,
      fmt::format("host {} has {}; its interfaces: {}", host.host, what, ShowAll(host.interfaces)),
      std::string(hint)};
}

constexpr std::string_view kNeedsIpv4 =
    "workers connect over IPv4 only (hvdray itself may reach the host over IPv6)";

bool LacksIpv4(const InterfaceFacts& facts) {
  return facts.is_up && !facts.is_loopback && facts.addresses.empty();
}

/// `names`: of interfaces that the host can't use.
Status NoneOf(const HostNics& host, std::span<const std::string> names, std::string_view what) {
  const auto is_named = [names](const InterfaceFacts& facts) {
    return std::find(names.begin(), names.end(), facts.name) != names.end();
  };
  for (const InterfaceFacts& facts : host.interfaces) {
    if (!is_named(facts) || !LacksIpv4(facts)) continue;
    return NoInterface(host, fmt::format("no IPv4 address on {}", facts.name), kNeedsIpv4);
  }
  return NoInterface(host, what);
}

/// NCCL treats names as prefixes ("eth1" also matches "eth10") unless the list begins with '='.
std::string NcclList(const HostNics& host, const std::vector<std::string>& names) {
  const bool is_ambiguous =
      std::any_of(host.interfaces.begin(), host.interfaces.end(), [&](const auto& facts) {
        const bool is_meant = std::find(names.begin(), names.end(), facts.name) != names.end();
        return !is_meant && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return facts.name.starts_with(name);
        });
      });
  return fmt::format("{}{}", is_ambiguous ? "=" : "", fmt::join(names, ","));
}

NicChoice ChoiceOf(const HostNics& host, const InterfaceFacts& facts) {
  return {facts.name, NcclList(host, {facts.name}), facts.addresses[0].address};
}

const InterfaceFacts* FindLoopback(const HostNics& host, bool is_up) {
  for (const InterfaceFacts& facts : host.interfaces) {
    if (!facts.is_loopback || facts.is_up != is_up) continue;
    if (!is_up) return &facts;
    const auto is_standard = [](const auto& a) { return a.address == "127.0.0.1"; };
    if (std::any_of(facts.addresses.begin(), facts.addresses.end(), is_standard)) return &facts;
  }
  return nullptr;
}

Result<NicChoice> LoopbackOf(const HostNics& host) {
  const InterfaceFacts* up = FindLoopback(host, true);
  if (up != nullptr) return NicChoice{up->name, NcclList(host, {up->name}), "127.0.0.1"};
  const InterfaceFacts* down = FindLoopback(host, false);
  const std::string name = down != nullptr ? down->name : "lo";
  return Status(ErrorCode::kNoUsableInterface,
                fmt::format("the loopback interface {} of host {} is {}", name, host.host,
                            down != nullptr ? "down" : "missing or has no address 127.0.0.1"),
                fmt::format("bring it up: ip link set {} up", name));
}

void DropUnless(bool Candidate::*is_wanted, HostCandidates* host) {
  std::vector<Candidate>& all = host->candidates;
  if (std::none_of(all.begin(), all.end(), [&](const Candidate& c) { return c.*is_wanted; })) {
    return;
  }
  std::erase_if(all, [&](const Candidate& c) { return !(c.*is_wanted); });
}

/// Drops the candidates that cannot connect the hosts, if a host has better ones.
void DropUnreachable(std::vector<HostCandidates>* hosts) {
  std::map<uint32_t, std::set<const HostNics*>> owners;
  std::set<uint32_t> masks;
  for (const HostCandidates& host : *hosts) {
    for (const Candidate& one : host.candidates) {
      owners[one.address].insert(host.nics);
      masks.insert(one.mask);
    }
  }
  for (HostCandidates& host : *hosts) {
    for (Candidate& one : host.candidates) one.is_distinct = owners[one.address].size() == 1;
    DropUnless(&Candidate::is_distinct, &host);
  }
  std::map<std::pair<uint32_t, uint32_t>, std::set<const HostNics*>> subnets;
  for (const HostCandidates& host : *hosts) {
    for (const Candidate& one : host.candidates) {
      for (const uint32_t mask : masks) subnets[{mask, one.address & mask}].insert(host.nics);
    }
  }
  for (HostCandidates& host : *hosts) {
    for (Candidate& one : host.candidates) {
      one.is_subnet_shared = subnets[{one.mask, one.address & one.mask}].size() == hosts->size();
    }
    DropUnless(&Candidate::is_subnet_shared, &host);
  }
}

/// The smaller, the better.
auto Cost(const Candidate& one, bool is_alone) {
  const InterfaceFacts& facts = *one.facts;
  return std::make_tuple(is_alone && !facts.has_default_route, facts.is_virtual,
                         -std::max<int64_t>(facts.speed_mbps, 0), !facts.has_default_route,
                         std::string_view(facts.name));
}

const Candidate* Find(const HostCandidates& host, std::string_view name) {
  for (const Candidate& one : host.candidates) {
    if (one.facts->name == name) return &one;
  }
  return nullptr;
}

/// Of the names that all hosts have, the one with the best worst case; empty if there is none.
std::string CommonName(const std::vector<HostCandidates>& hosts) {
  const bool is_alone = hosts.size() == 1;
  std::string best;
  std::optional<decltype(Cost({}, false))> best_cost;
  for (const Candidate& first : hosts[0].candidates) {
    auto worst = Cost(first, is_alone);
    bool is_everywhere = true;
    for (const HostCandidates& host : hosts) {
      const Candidate* one = Find(host, first.facts->name);
      is_everywhere = is_everywhere && one != nullptr;
      if (one != nullptr) worst = std::max(worst, Cost(*one, is_alone));
    }
    if (!is_everywhere || (best_cost && !(worst < *best_cost))) continue;
    best_cost = worst;
    best = first.facts->name;
  }
  return best;
}

Result<std::vector<NicChoice>> SelectByFacts(std::span<const HostNics> hosts) {
  std::vector<HostCandidates> all;
  for (const HostNics& host : hosts) {
    HostCandidates& own = all.emplace_back(HostCandidates{&host, {}});
    for (const InterfaceFacts& facts : host.interfaces) {
      const std::optional<Candidate> one = Usable(facts);
      if (!one || facts.is_loopback || IsLoopback(one->address) || IsLinkLocal(one->address)) {
        continue;
      }
      own.candidates.push_back(*one);
    }
    if (!own.candidates.empty()) continue;
    if (hosts.size() > 1) return NoSharedInterface(host);
    HVDRAY_ASSIGN_OR_RETURN(NicChoice loopback, LoopbackOf(host));
    return std::vector<NicChoice>{std::move(loopback)};
  }
  DropUnreachable(&all);
  const std::string common = CommonName(all);
  std::vector<NicChoice> choices;
  for (const HostCandidates& host : all) {
    const Candidate* chosen = common.empty() ? nullptr : Find(host, common);
    if (chosen == nullptr) {
      chosen = &*std::min_element(
          host.candidates.begin(), host.candidates.end(),
          [](const Candidate& a, const Candidate& b) { return Cost(a, false) < Cost(b, false); });
    }
    choices.push_back(ChoiceOf(*host.nics, *chosen->facts));
  }
  return choices;
}

std::vector<const InterfaceFacts*> UsableOf(const HostNics& host,
                                            std::span<const std::string> wanted) {
  std::vector<const InterfaceFacts*> found;
  for (const std::string& name : wanted) {
    for (const InterfaceFacts& facts : host.interfaces) {
      const bool is_new = std::find(found.begin(), found.end(), &facts) == found.end();
      if (facts.name == name && is_new && Usable(facts)) found.push_back(&facts);
    }
  }
  return found;
}

Status CheckWanted(std::span<const HostNics> hosts, std::span<const std::string> wanted) {
  for (const std::string& name : wanted) {
    const bool is_somewhere = std::any_of(hosts.begin(), hosts.end(), [&](const HostNics& host) {
      return !UsableOf(host, std::span(&name, 1)).empty();
    });
    if (is_somewhere) continue;
    std::vector<std::string_view> known;
    for (const InterfaceFacts& facts : hosts[0].interfaces) known.push_back(facts.name);
    const std::string nearest = Nearest(name, known);
    Status status =
        NoneOf(hosts[0], std::span(&name, 1), fmt::format("no usable interface {}", name));
    if (nearest.empty() || nearest == name) return status;
    return std::move(status).WithHint(fmt::format("did you mean {}?", nearest));
  }
  return {};
}

Result<std::vector<NicChoice>> SelectWanted(std::span<const HostNics> hosts,
                                            std::span<const std::string> wanted,
                                            HostSpread spread) {
  HVDRAY_RETURN_IF_ERROR(CheckWanted(hosts, wanted));
  std::map<std::string_view, size_t> hosts_with;
  std::vector<std::vector<const InterfaceFacts*>> usable;
  for (const HostNics& host : hosts) {
    usable.push_back(UsableOf(host, wanted));
    if (usable.back().empty()) {
      return NoneOf(host, wanted, fmt::format("none of {}", fmt::join(wanted, ", ")));
    }
    for (const InterfaceFacts* facts : usable.back()) ++hosts_with[facts->name];
  }
  std::vector<NicChoice> choices;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const auto common = std::find_if(usable[i].begin(), usable[i].end(), [&](const auto* facts) {
      return hosts_with[facts->name] == hosts.size();
    });
    NicChoice choice =
        ChoiceOf(hosts[i], common != usable[i].end() ? **common : *usable[i].front());
    std::vector<std::string> names;
    for (const InterfaceFacts* facts : usable[i]) names.push_back(facts->name);
    choice.nccl_interfaces = NcclList(hosts[i], names);
    if (spread == HostSpread::kOneMachine && FindLoopback(hosts[i], true) != nullptr) {
      choice.address = "127.0.0.1";
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace

Status NoSharedInterface(const HostNics& host) {
  const bool is_v6_only = std::ranges::any_of(host.interfaces, &LacksIpv4);
  return is_v6_only ? NoInterface(host, "no IPv4 address that other hosts can reach", kNeedsIpv4)
                    : NoInterface(host, "no interface that other hosts can reach");
}

Result<std::vector<NicChoice>> SelectNics(std::span<const HostNics> hosts,
                                          std::span<const std::string> wanted, HostSpread spread) {
  if (hosts.empty()) return std::vector<NicChoice>{};
  if (!wanted.empty()) return SelectWanted(hosts, wanted, spread);
  if (spread == HostSpread::kManyMachines) return SelectByFacts(hosts);
  std::vector<NicChoice> choices;
  for (const HostNics& host : hosts) {
    HVDRAY_ASSIGN_OR_RETURN(NicChoice choice, LoopbackOf(host));
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace hvdray
