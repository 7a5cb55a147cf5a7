// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/network_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

constexpr double kSlowBandwidth = 0.5;    // of the median
constexpr double kSlowRoundTrip = 3;      // times the median,
constexpr double kRoundTripSlack = 1e-3;  // and so much more: what a busy host adds is no finding
constexpr size_t kMaxSlowPairs = 10;
constexpr size_t kMaxShownHosts = 12;  // about 100 columns
constexpr size_t kMaxShownName = 16;
constexpr size_t kCell = 7;

/// One direction of a pair.
struct Way {
  size_t from;
  size_t to;
  double round_trip_s;
  double bytes_per_s;
};

std::vector<Way> WaysOf(std::span<const MeasuredPair> pairs) {
  std::vector<Way> ways;
  for (const MeasuredPair& pair : pairs) {
    if (!pair.why.ok()) continue;
    const double seconds = std::chrono::duration<double>(pair.round_trip).count();
    ways.push_back({pair.from, pair.to, seconds, pair.there});
    ways.push_back({pair.to, pair.from, seconds, pair.back});
  }
  return ways;
}

/// The middle one; of two, the first.
double MedianOf(const std::map<size_t, double>& by_host) {
  std::vector<double> values;
  values.reserve(by_host.size());
  for (const auto& [host, value] : by_host) values.push_back(value);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Two digits that count, at most six characters.
std::string ShowNumber(double number) {
  if (number >= 99.5) return fmt::format("{:.0f}", number);
  if (number >= 0.001) return fmt::format("{:.2g}", number);
  return number < 0.0001 ? "<.0001" : fmt::format("{:.4f}", number);
}

/// "6200": how many times as much, in two digits that count.
std::string ShowTimes(double times) {
  double unit = 1;
  while (times / unit >= 100) unit *= 10;
  return fmt::format("{:.0f}", std::round(times / unit) * unit);
}

std::string ShowGigabytes(double bytes_per_s) { return ShowNumber(bytes_per_s / 1e9); }
std::string ShowMilliseconds(double seconds) { return ShowNumber(seconds * 1e3); }

bool IsSlowBandwidth(const Way& way, const NetworkMedians& medians) {
  return way.bytes_per_s < kSlowBandwidth * medians.bytes_per_s;
}

bool IsSlowRoundTrip(const Way& way, const NetworkMedians& medians) {
  return way.round_trip_s > kSlowRoundTrip * medians.round_trip_s &&
         way.round_trip_s > medians.round_trip_s + kRoundTripSlack;
}

std::string Range(const std::vector<double>& values, std::string (*show)(double)) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::string from = show(*least);
  const std::string to = show(*most);
  return from == to ? from : fmt::format("{}-{}", from, to);
}

/// "0.11 GB/s, 0.1 of the median 1.1; round trip 50 ms, 830 times the median 0.06 ms": what is slow
/// in these ways.
std::string HowSlow(const std::vector<Way>& ways, const NetworkMedians& medians) {
  std::vector<double> bandwidths;
  std::vector<double> round_trips;
  for (const Way& way : ways) {
    if (IsSlowBandwidth(way, medians)) bandwidths.push_back(way.bytes_per_s);
    if (IsSlowRoundTrip(way, medians)) round_trips.push_back(way.round_trip_s);
  }
  std::string text;
  if (!bandwidths.empty()) {
    const double most = *std::max_element(bandwidths.begin(), bandwidths.end());
    text = fmt::format("{} GB/s, {:.1g} of the median {}", Range(bandwidths, &ShowGigabytes),
                       most / medians.bytes_per_s, ShowGigabytes(medians.bytes_per_s));
  }
  if (!round_trips.empty()) {
    const double least = *std::min_element(round_trips.begin(), round_trips.end());
    text +=
        fmt::format("{}round trip {} ms, {} times the median {} ms", text.empty() ? "" : "; ",
                    Range(round_trips, &ShowMilliseconds), ShowTimes(least / medians.round_trip_s),
                    ShowMilliseconds(medians.round_trip_s));
  }
  return text;
}

constexpr char kSlowHint[] =
    "every all-reduce waits for the slowest way: see what else uses it, the speed and duplex that "
    "ethtool shows, and whether --network-interfaces names a faster one";

class SpeedJudge {
 public:
  SpeedJudge(const CheckFacts& facts, std::vector<Finding>& findings)
      : facts_(facts), findings_(findings), medians_(Medians(facts.pairs)) {
    for (const Way& way : WaysOf(facts.pairs)) {
      ++partners_[way.from];
      if (IsSlowBandwidth(way, medians_) || IsSlowRoundTrip(way, medians_)) slow_.push_back(way);
    }
  }

  void Judge() {
    if (partners_.size() < kFewest) return;
    // The slowest first: without it, the others may well be as usual.
    for (;;) {
      const std::optional<size_t> host = SlowestHost();
      if (!host) break;
      std::vector<Way> ways;
      std::copy_if(slow_.begin(), slow_.end(), std::back_inserter(ways),
                   [&](const Way& way) { return way.from == *host || way.to == *host; });
      Add({*host}, fmt::format("host {} is slow with every other host: {}", Name(*host),
                               HowSlow(ways, medians_)));
      std::erase_if(slow_, [&](const Way& way) { return way.from == *host || way.to == *host; });
    }
    JudgeWays();
  }

 private:
  static constexpr size_t kFewest = 3;  // Two hosts have one pair.

  const std::string& Name(size_t host) const { return facts_.hosts[host].name; }

  void Add(const std::vector<size_t>& hosts, std::string text) {
    Finding finding{.kind = "slow", .text = std::move(text), .hint = kSlowHint};
    for (const size_t host : hosts) finding.hosts.push_back(Name(host));
    findings_.push_back(std::move(finding));
  }

  /// A host that is slow, in one direction at least, with all that it measured with.
  std::optional<size_t> SlowestHost() const {
    std::map<size_t, std::map<size_t, bool>> slow;
    for (const Way& way : slow_) {
      slow[way.from][way.to] = true;
      slow[way.to][way.from] = true;
    }
    std::optional<size_t> slowest;
    for (const auto& [host, others] : slow) {
      const size_t partners = partners_.at(host);
      if (partners < 2 || others.size() < partners) continue;
      if (!slowest || BestOf(host) < BestOf(*slowest)) slowest = host;
    }
    return slowest;
  }

  /// Its best way, as a part of the median.
  double BestOf(size_t host) const {
    double best = 0;
    for (const Way& way : slow_) {
      if (way.from != host && way.to != host) continue;
      best = std::max(best, std::min(way.bytes_per_s / medians_.bytes_per_s,
                                     medians_.round_trip_s / way.round_trip_s));
    }
    return best;
  }

  void JudgeWays() {
    std::stable_sort(slow_.begin(), slow_.end(),
                     [](const Way& a, const Way& b) { return a.bytes_per_s < b.bytes_per_s; });
    for (size_t i = 0; i < std::min(slow_.size(), kMaxSlowPairs); ++i) {
      const Way& way = slow_[i];
      Add({way.from, way.to},
          fmt::format("{} → {}: {}", Name(way.from), Name(way.to), HowSlow({way}, medians_)));
    }
    if (slow_.size() <= kMaxSlowPairs) return;
    std::vector<size_t> hosts;
    for (size_t i = kMaxSlowPairs; i < slow_.size(); ++i) {
      for (const size_t host : {slow_[i].from, slow_[i].to}) {
        if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
      }
    }
    Add(hosts, fmt::format("{} more ways between hosts are slow (--json has all)",
                           slow_.size() - kMaxSlowPairs));
  }

  const CheckFacts& facts_;
  std::vector<Finding>& findings_;
  const NetworkMedians medians_;
  std::map<size_t, size_t> partners_;
  std::vector<Way> slow_;
};

void JudgeFailures(const CheckFacts& facts, std::vector<Finding>& findings) {
  const auto place = [&](size_t host) {
    const CheckedHost& checked = facts.hosts[host];
    return fmt::format("{} ({} {})", checked.name, checked.nic, checked.address);
  };
  for (const MeasuredPair& pair : facts.pairs) {
    if (pair.why.ok()) continue;
    const bool is_one = pair.from == pair.to;
    Finding finding{.kind = "network",
                    .code = pair.why.code(),
                    .text = is_one
                                ? fmt::format("host {}: {}", place(pair.from), pair.why.message())
                                : fmt::format("host {} to host {}: {}", place(pair.from),
                                              place(pair.to), pair.why.message()),
                    .hint = pair.why.hint(),
                    .hosts = {facts.hosts[pair.from].name}};
    if (!is_one) finding.hosts.push_back(facts.hosts[pair.to].name);
    if (finding.hint.empty()) finding.hint = "see what these hosts are doing, and try once more";
    findings.push_back(std::move(finding));
  }
  std::vector<std::string> unable;
  for (const CheckedHost& host : facts.hosts) {
    const bool is_asked = host.lost.ok() && !host.nic.empty();
    if (is_asked && !host.facts.measures) unable.push_back(host.name);
  }
  if (!facts.is_probed || unable.empty()) return;
  findings.push_back(
      {"unmeasured", ErrorCode::kOk,
       fmt::format("{}: no bandwidth and latency, the agent there does not measure",
                   CompressHostList(unable)),
       "its version is another one: leave HVDRAY_AGENT_PATH out, or see what it printed", unable});
}

/// How bad a value is, 0 (as usual) to 3.
size_t Heat(double part_of_median) {
  if (part_of_median >= 0.8) return 0;
  if (part_of_median >= 0.5) return 1;
  return part_of_median >= 0.2 ? 2 : 3;
}

std::string Cell(const std::string& text, double part_of_median, Shades shades) {
  // Green, olive, orange, red, all dark, under a light text: readable on any background.
  constexpr int kColors[] = {22, 58, 130, 88};
  std::string cell = fmt::format("{:>{}}", text, kCell);
  if (shades == Shades::kNone) return cell;
  return fmt::format("\x1b[38;5;231;48;5;{}m{}\x1b[0m", kColors[Heat(part_of_median)], cell);
}

class Matrix {
 public:
  Matrix(const CheckFacts& facts, Shades shades)
      : facts_(facts), shades_(shades), medians_(Medians(facts.pairs)) {
    for (const Way& way : WaysOf(facts.pairs)) {
      ways_.emplace(std::pair(way.from, way.to), way);
      if (std::find(hosts_.begin(), hosts_.end(), way.from) == hosts_.end()) {
        hosts_.push_back(way.from);
      }
    }
    std::sort(hosts_.begin(), hosts_.end());
    for (const size_t host : hosts_) name_width_ = std::max(name_width_, Name(host).size());
  }

  std::string Text() const {
    if (hosts_.empty()) return {};
    const std::string bandwidth = ShowGigabytes(medians_.bytes_per_s);
    const std::string round_trip = ShowMilliseconds(medians_.round_trip_s);
    if (hosts_.size() > kMaxShownHosts) {
      return fmt::format(
          "between {} hosts: median {} GB/s, round trip {} ms; --json has every pair\n\n",
          hosts_.size(), bandwidth, round_trip);
    }
    if (hosts_.size() == 2) {
      const Way& there = ways_.at({hosts_[0], hosts_[1]});
      const Way& back = ways_.at({hosts_[1], hosts_[0]});
      return fmt::format("{} → {}: {} GB/s, back {} GB/s, round trip {} ms\n\n", Name(there.from),
                         Name(there.to), ShowGigabytes(there.bytes_per_s),
                         ShowGigabytes(back.bytes_per_s), ShowMilliseconds(there.round_trip_s));
    }
    return Table(fmt::format("GB/s from row to column, median {}", bandwidth),
                 [this](const Way& way) {
                   return Cell(ShowGigabytes(way.bytes_per_s),
                               way.bytes_per_s / medians_.bytes_per_s, shades_);
                 }) +
           Table(fmt::format("round trip in ms, median {}", round_trip),
                 [this](const Way& way) {
                   return Cell(ShowMilliseconds(way.round_trip_s),
                               medians_.round_trip_s / way.round_trip_s, shades_);
                 }) +
           "\n";
  }

 private:
  std::string Name(size_t host) const {
    const std::string& name = facts_.hosts[host].name;
    return name.size() <= kMaxShownName ? name
                                        : ".." + name.substr(name.size() - kMaxShownName + 2);
  }

  /// Columns are numbered: names are longer than cells.
  template <typename Show>
  std::string Table(std::string_view title, const Show& show) const {
    std::string text = fmt::format("{}\n  {:<{}}   ", title, "", name_width_);
    for (size_t i = 0; i < hosts_.size(); ++i) text += fmt::format("{:>{}}", i + 1, kCell);
    text += '\n';
    for (size_t i = 0; i < hosts_.size(); ++i) {
      text += fmt::format("  {:<{}} {:>2}", Name(hosts_[i]), name_width_, i + 1);
      for (const size_t to : hosts_) {
        const auto way = ways_.find({hosts_[i], to});
        text += way == ways_.end() ? fmt::format("{:>{}}", "-", kCell) : show(way->second);
      }
      text += '\n';
    }
    return text;
  }

  const CheckFacts& facts_;
  const Shades shades_;
  const NetworkMedians medians_;
  std::map<std::pair<size_t, size_t>, Way> ways_;
  std::vector<size_t> hosts_;
  size_t name_width_ = 0;
};

}  // namespace

NetworkMedians Medians(std::span<const MeasuredPair> pairs) {
  std::map<size_t, double> round_trips;
  std::map<size_t, double> bandwidths;
  for (const Way& way : WaysOf(pairs)) {
    const auto [trip, is_first] = round_trips.emplace(way.from, way.round_trip_s);
    if (!is_first) trip->second = std::min(trip->second, way.round_trip_s);
    for (const size_t host : {way.from, way.to}) {
      double& best = bandwidths[host];
      best = std::max(best, way.bytes_per_s);
    }
  }
  return {MedianOf(round_trips), MedianOf(bandwidths)};
}

void JudgePairs(const CheckFacts& facts, std::vector<Finding>& findings) {
  JudgeFailures(facts, findings);
  SpeedJudge(facts, findings).Judge();
}

std::string MatrixText(const CheckFacts& facts, Shades shades) {
  return Matrix(facts, shades).Text();
}

}  // namespace hvdray
