#include "launcher/report/check_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace hvdray {
namespace {

constexpr size_t kMaxPairs = 10;
// A network of two has nothing but pairs.
constexpr size_t kFewest = 3;

constexpr char kHint[] =
    "look for a firewall between them, or name the interface that reaches all hosts: "
    "--network-interfaces";

class NetworkJudge {
 public:
  NetworkJudge(const CheckFacts& facts, std::vector<Finding>& findings)
      : facts_(facts), findings_(findings) {
    for (const ClosedWay& way : facts.closed_ways) ways_.emplace(std::pair(way.from, way.to), &way);
    const size_t probed = static_cast<size_t>(std::count_if(
        facts.hosts.begin(), facts.hosts.end(),
        [](const CheckedHost& host) { return host.lost.ok() && !host.address.empty(); }));
    if (probed >= kFewest) all_ways_ = std::min(probed - 1, wire::kMaxProbeTargets);
  }

  void Judge() {
    for (const ClosedWay& way : facts_.closed_ways) {
      if (way.from == way.to) {
        Add(way, {way.from}, fmt::format("host {}: {}", Name(way.from), way.why.message()));
      }
    }
    std::erase_if(ways_, [](const auto& entry) { return entry.first.first == entry.first.second; });
    JudgeWhole(&ClosedWay::to, "no other host reaches host {}");
    JudgeWhole(&ClosedWay::from, "host {} reaches no other host");
    JudgePairs();
  }

 private:
  const std::string& Name(size_t host) const { return facts_.hosts[host].name; }
  std::string Place(size_t host) const {
    const CheckedHost& facts = facts_.hosts[host];
    return fmt::format("{} ({} {})", facts.name, facts.nic, facts.address);
  }

  void Add(const ClosedWay& way, const std::vector<size_t>& hosts, std::string text) {
    Finding finding{.kind = "network", .code = way.why.code(), .text = std::move(text)};
    finding.hint = way.why.hint().empty() ? kHint : way.why.hint();
    for (const size_t host : hosts) finding.hosts.push_back(Name(host));
    findings_.push_back(std::move(finding));
  }

  /// Hosts with which every way is closed, in the direction in which they are `end`.
  void JudgeWhole(size_t ClosedWay::*end, const char* text) {
    if (all_ways_ == 0) return;
    std::map<size_t, std::vector<const ClosedWay*>> by_host;
    for (const auto& [pair, way] : ways_) by_host[way->*end].push_back(way);
    for (const auto& [host, ways] : by_host) {
      if (ways.size() < all_ways_) continue;
      const ClosedWay& first = *ways.front();
      Add(first, {host},
          fmt::format("{}: {}", fmt::format(fmt::runtime(text), Place(host)), first.why.message()));
      std::erase_if(ways_,
                    [end, lost = host](const auto& entry) { return entry.second->*end == lost; });
    }
  }

  void JudgePairs() {
    size_t told = 0;
    std::set<std::string> more;
    std::vector<size_t> more_hosts;
    const ClosedWay* first_more = nullptr;
    while (!ways_.empty()) {
      const auto [pair, way] = *ways_.begin();
      ways_.erase(ways_.begin());
      const bool is_mutual = ways_.erase({pair.second, pair.first}) > 0;
      if (++told > kMaxPairs) {
        if (first_more == nullptr) first_more = way;
        for (const size_t host : {pair.first, pair.second}) {
          if (more.insert(Name(host)).second) more_hosts.push_back(host);
        }
        continue;
      }
      const char* text = is_mutual ? "hosts {} and {} cannot reach each other: {}"
                                   : "host {} cannot reach host {}: {}";
      Add(*way, {pair.first, pair.second},
          fmt::format(fmt::runtime(text), Place(pair.first), Place(pair.second),
                      way->why.message()));
    }
    if (first_more == nullptr) return;
    Add(*first_more, more_hosts,
        fmt::format("{} more pairs of hosts cannot reach each other (--json names them)",
                    told - kMaxPairs));
  }

  const CheckFacts& facts_;
  std::vector<Finding>& findings_;
  std::map<std::pair<size_t, size_t>, const ClosedWay*> ways_;
  size_t all_ways_ = 0;  // That lead to (and from) one host; 0: too few to speak of all.
};

}  // namespace

void JudgeNetwork(const CheckFacts& facts, std::vector<Finding>& findings) {
  NetworkJudge(facts, findings).Judge();
}

}  // namespace hvdray
