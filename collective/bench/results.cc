// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr double kGiga = 1e9;

/// Three digits that count, in at most six columns up to a million.
std::string Rate(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  if (value >= 0.9995) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string Microseconds(double value) {
  return value < 9999.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string OpText(const BenchCase& what) {
  return IsReduction(what.kind) ? std::string(Name(what.op)) : "none";
}

/// As nccl-tests: -1 where there is none.
int RootOf(const BenchCase& what) { return IsRooted(what.kind) ? what.root : -1; }

/// The columns of one way to call.
constexpr size_t kWayColumns = 46;
constexpr size_t kCopyColumns = 7;
/// Those before them.
constexpr size_t kCaseColumns = 53;

std::string WayHead(std::string_view title, const BenchFacts& facts) {
  return fmt::format("{:>{}}", title, kWayColumns + (facts.is_one_host() ? kCopyColumns : 0));
}

std::string WayNames(const BenchFacts& facts, bool is_units) {
  const std::string copy = facts.is_one_host() ? fmt::format("{:>7}", is_units ? "" : "%copy") : "";
  if (is_units) {
    return fmt::format("{:>9}{:>8}{:>8}{:>7}{:>7}{}{:>7}", "(us)", "(us)", "(us)", "(GB/s)",
                       "(GB/s)", copy, "");
  }
  return fmt::format("{:>9}{:>8}{:>8}{:>7}{:>7}{}{:>7}", "time", "p50", "p99", "algbw", "busbw",
                     copy, "#wrong");
}

std::string WayCells(const BenchFacts& facts, const BenchRow& row,
                     const std::optional<Timing>& timing) {
  const bool has_copy = facts.is_one_host();
  if (!timing) {
    return fmt::format("{:>9}{:>8}{:>8}{:>7}{:>7}{}{:>7}", "-", "-", "-", "-", "-",
                       has_copy ? fmt::format("{:>7}", "-") : "", "-");
  }
  const std::string share =
      row.copy_gbps > 0 ? Rate(100 * timing->busbw_gbps / row.copy_gbps) : "-";
  return fmt::format("{:>9}{:>8}{:>8}{:>7}{:>7}{}{:>7}", Microseconds(timing->mean_us),
                     Microseconds(timing->p50_us), Microseconds(timing->p99_us),
                     Rate(timing->algbw_gbps), Rate(timing->busbw_gbps),
                     has_copy ? fmt::format("{:>7}", share) : "",
                     timing->wrong ? fmt::format("{}", *timing->wrong) : "N/A");
}

std::string Describe(const BenchRow& row, std::string_view way) {
  const BenchCase& what = row.what;
  std::string text = fmt::format("{} of {} {}", BenchName(what.kind), what.count, Name(what.dtype));
  if (IsReduction(what.kind)) text += fmt::format(" ({})", Name(what.op));
  if (IsRooted(what.kind)) text += fmt::format(", root {}", what.root);
  return fmt::format("{}, {}, backend {}", text, way, row.backend);
}

Json TimingJson(const BenchRow& row, const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  Json json;
  json["iterations"] = timing->iterations;
  json["time_us"] = timing->mean_us;
  json["p50_us"] = timing->p50_us;
  json["p99_us"] = timing->p99_us;
  json["algbw_gbps"] = timing->algbw_gbps;
  json["busbw_gbps"] = timing->busbw_gbps;
  json["percent_of_copy"] =
      row.copy_gbps > 0 ? Json(100 * timing->busbw_gbps / row.copy_gbps) : Json(nullptr);
  json["wrong"] = timing->wrong ? Json(*timing->wrong) : Json(nullptr);
  return json;
}

void AddCsvLine(const BenchFacts& facts, const BenchRow& row, std::string_view way,
                const std::optional<Timing>& timing, std::string& csv) {
  if (!timing) return;
  const BenchCase& what = row.what;
  csv += fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{},{}\n",
      BenchName(what.kind), row.backend, facts.size, facts.hosts, what.bytes, what.count,
      Name(what.dtype), OpText(what), RootOf(what), way, timing->iterations, timing->mean_us,
      timing->p50_us, timing->p99_us, timing->algbw_gbps, timing->busbw_gbps,
      row.copy_gbps > 0 ? fmt::format("{:.2f}", 100 * timing->busbw_gbps / row.copy_gbps) : "",
      timing->wrong ? fmt::format("{}", *timing->wrong) : "");
}

}  // namespace

double BusFactor(Collective kind, int size) {
  const double others = static_cast<double>(size - 1) / size;
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return 1;
  }
  return 1;
}

double Percentile(std::span<const double> sorted, double share) {
  const auto count = static_cast<double>(sorted.size());
  // 0.99 * 100 is a little more than 99.
  const double place = std::ceil(share * count - 1e-9);
  return sorted[static_cast<size_t>(std::clamp(place, 1.0, count)) - 1];
}

Timing TimingOf(const BenchCase& what, int size, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  Timing timing;
  timing.iterations = times_us.size();
  timing.mean_us =
      std::accumulate(times_us.begin(), times_us.end(), 0.0) / static_cast<double>(times_us.size());
  timing.p50_us = Percentile(times_us, 0.5);
  timing.p99_us = Percentile(times_us, 0.99);
  if (timing.mean_us > 0) {
    timing.algbw_gbps = static_cast<double>(what.bytes) / (timing.mean_us * 1e-6) / kGiga;
  }
  timing.busbw_gbps = timing.algbw_gbps * BusFactor(what.kind, size);
  return timing;
}

uint64_t WrongOf(std::span<const BenchRow> rows) {
  uint64_t wrong = 0;
  for (const BenchRow& row : rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (timing) wrong += timing->wrong.value_or(0);
    }
  }
  return wrong;
}

std::string WrongText(const BenchRow& row) {
  if (row.out_of_place && row.out_of_place->wrong.value_or(0) > 0) {
    return fmt::format("{} in {}", Count(*row.out_of_place->wrong, "wrong element"),
                       Describe(row, "out of place"));
  }
  if (row.in_place && row.in_place->wrong.value_or(0) > 0) {
    return fmt::format("{} in {}", Count(*row.in_place->wrong, "wrong element"),
                       Describe(row, "in place"));
  }
  return {};
}

std::string TableFacts(const BenchFacts& facts) {
  std::string text = fmt::format(
      "# {}, {}\n# rank 0 runs on {}, {}, reductions: {}\n", facts.build, facts.time, facts.machine,
      Count(static_cast<uint64_t>(facts.processors), "processor"), facts.kernels);
  const std::string speed =
      facts.copy_least_gbps == facts.copy_most_gbps
          ? Rate(facts.copy_most_gbps)
          : fmt::format("{} to {}", Rate(facts.copy_least_gbps), Rate(facts.copy_most_gbps));
  return text +
         fmt::format(
             "# {} on {}; while all ranks of a host copy blocks of {}, each copies {} GB/s\n",
             Count(static_cast<uint64_t>(facts.size), "rank"),
             Count(static_cast<uint64_t>(facts.hosts), "host"), SizeText(facts.copy_bytes), speed);
}

std::string TableHead(const BenchFacts& facts, Collective kind, const std::string& backend) {
  std::string text = fmt::format("#\n# {}, backend {}\n", BenchName(kind), backend);
  text += fmt::format("#{:>{}}{}{}\n", "", kCaseColumns - 1, WayHead("out-of-place", facts),
                      WayHead("in-place", facts));
  text += fmt::format("#{:>11}{:>13}{:>10}{:>9}{:>6}   {}{}\n", "size", "count", "type", "redop",
                      "root", WayNames(facts, /*is_units=*/false), WayNames(facts, false));
  text += fmt::format("#{:>11}{:>13}{:>10}{:>9}{:>6}   {}{}", "(B)", "(elements)", "", "", "",
                      WayNames(facts, /*is_units=*/true), WayNames(facts, true));
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string TableLine(const BenchFacts& facts, const BenchRow& row) {
  const BenchCase& what = row.what;
  return fmt::format("{:>12}{:>13}{:>10}{:>9}{:>6}   {}{}\n", what.bytes, what.count,
                     Name(what.dtype), OpText(what), RootOf(what),
                     WayCells(facts, row, row.out_of_place), WayCells(facts, row, row.in_place));
}

std::string TableFoot(std::span<const BenchRow> rows) {
  double sum = 0;
  size_t timings = 0;
  bool is_checked = false;
  for (const BenchRow& row : rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (!timing) continue;
      sum += timing->busbw_gbps;
      ++timings;
      is_checked = is_checked || timing->wrong.has_value();
    }
  }
  const uint64_t wrong = WrongOf(rows);
  const std::string verdict = !is_checked  ? "not checked"
                              : wrong == 0 ? "all results are right"
                                           : Count(wrong, "wrong element");
  return fmt::format("#\n# {}; average busbw {} GB/s\n", verdict,
                     Rate(timings == 0 ? 0 : sum / static_cast<double>(timings)));
}

std::string ResultsJson(const BenchFacts& facts, std::span<const BenchRow> rows) {
  Json json;
  json["version"] = 1;
  json["build"] = facts.build;
  json["time"] = facts.time;
  json["machine"] = facts.machine;
  json["processors"] = facts.processors;
  json["kernels"] = facts.kernels;
  json["ranks"] = facts.size;
  json["hosts"] = facts.hosts;
  json["copy"] = {{"bytes", facts.copy_bytes},
                  {"least_gbps", facts.copy_least_gbps},
                  {"most_gbps", facts.copy_most_gbps}};
  json["wrong"] = WrongOf(rows);
  json["rows"] = Json::array();
  for (const BenchRow& row : rows) {
    const BenchCase& what = row.what;
    Json one;
    one["collective"] = BenchName(what.kind);
    one["backend"] = row.backend;
    one["bytes"] = what.bytes;
    one["count"] = what.count;
    one["dtype"] = Name(what.dtype);
    one["op"] = IsReduction(what.kind) ? Json(Name(what.op)) : Json(nullptr);
    one["root"] = IsRooted(what.kind) ? Json(what.root) : Json(nullptr);
    one["copy_gbps"] = row.copy_gbps > 0 ? Json(row.copy_gbps) : Json(nullptr);
    one["out_of_place"] = TimingJson(row, row.out_of_place);
    one["in_place"] = TimingJson(row, row.in_place);
    json["rows"].push_back(std::move(one));
  }
  return DumpJson(json, /*indent=*/1) + "\n";
}

std::string ResultsCsv(const BenchFacts& facts, std::span<const BenchRow> rows) {
  std::string csv =
      "collective,backend,ranks,hosts,bytes,count,dtype,op,root,place,iterations,time_us,p50_us,"
      "p99_us,algbw_gbps,busbw_gbps,percent_of_copy,wrong\n";
  for (const BenchRow& row : rows) {
    AddCsvLine(facts, row, "out", row.out_of_place, csv);
    AddCsvLine(facts, row, "in", row.in_place, csv);
  }
  return csv;
}

}  // namespace hvdray
