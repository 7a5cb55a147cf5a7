// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

constexpr size_t kMaxCases = 100'000;
constexpr uint64_t kMaxSizeBytes = uint64_t{1} << 50;

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather,     Collective::kBroadcast,
    Collective::kReduce,    Collective::kReduceScatter, Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,       Collective::kSend};

Status Wrong(std::string_view option, const std::string& what, std::string hint = {}) {
  return {ErrorCode::kUsage, fmt::format("{}: {}", option, what), std::move(hint)};
}

/// All values of an enum of the library, which calls what it does not know "?".
template <typename Enum>
std::vector<Enum> AllOf() {
  std::vector<Enum> all;
  for (uint8_t i = 0; Name(static_cast<Enum>(i)) != "?"; ++i) all.push_back(static_cast<Enum>(i));
  return all;
}

/// The members of `possible` that the list `text` names, in its order.
template <typename Enum, typename Name>
Result<std::vector<Enum>> ParseNames(std::string_view option, std::string_view text,
                                     const std::vector<Enum>& possible, const Name& name_of) {
  std::vector<Enum> chosen;
  for (const std::string_view word : BlankSeparated(text, ",")) {
    if (word == "all") {
      chosen = possible;
      continue;
    }
    const auto found = std::find_if(possible.begin(), possible.end(),
                                    [&](Enum value) { return name_of(value) == word; });
    if (found == possible.end()) {
      std::vector<std::string_view> names;
      names.reserve(possible.size());
      for (const Enum value : possible) names.push_back(name_of(value));
      return Wrong(option, fmt::format("unknown name '{}'", ShownText(word)),
                   fmt::format("it takes all, {}", fmt::join(names, ", ")));
    }
    if (std::find(chosen.begin(), chosen.end(), *found) == chosen.end()) chosen.push_back(*found);
  }
  if (chosen.empty()) return Wrong(option, "the list is empty");
  return chosen;
}

Result<uint64_t> ParseSize(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  uint64_t unit = 1;
  if (!text.empty()) {
    const std::string last = Lower(text.substr(text.size() - 1));
    if (last == "k") unit = uint64_t{1} << 10;
    if (last == "m") unit = uint64_t{1} << 20;
    if (last == "g") unit = uint64_t{1} << 30;
    if (unit > 1) digits.remove_suffix(1);
  }
  const std::optional<uint64_t> number = ParseInteger<uint64_t>(digits);
  if (!number || *number == 0) {
    return Wrong(option, fmt::format("must be a size above 0 such as 8, 4K or 1G, not '{}'",
                                     ShownText(text)));
  }
  if (*number > kMaxSizeBytes / unit) {
    return Wrong(option, fmt::format("{} bytes are more than memory has", ShownText(text)));
  }
  return *number * unit;
}

Result<std::vector<uint64_t>> ParseSizes(const SweepWords& words) {
  HVDRAY_ASSIGN_OR_RETURN(const uint64_t least, ParseSize("--minbytes", words.min_bytes));
  HVDRAY_ASSIGN_OR_RETURN(const uint64_t most, ParseSize("--maxbytes", words.max_bytes));
  if (least > most) {
    return Wrong("--minbytes", fmt::format("{} is more than the {} of --maxbytes", words.min_bytes,
                                           words.max_bytes));
  }
  uint64_t step = 0;
  if (!words.step_bytes.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(step, ParseSize("--stepbytes", words.step_bytes));
  }
  const std::optional<uint64_t> factor = ParseInteger<uint64_t>(words.step_factor);
  if (!factor || *factor < 2) {
    return Wrong("--stepfactor", fmt::format("must be a whole number from 2 on, not '{}'",
                                             ShownText(words.step_factor)));
  }
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = least; bytes <= most;) {
    if (sizes.size() == kMaxCases) {
      return Wrong("--stepbytes", fmt::format("more than {} sizes", kMaxCases),
                   "take larger steps");
    }
    sizes.push_back(bytes);
    if (step == 0 && *factor > most / bytes) break;  // and no overflow
    bytes = step > 0 ? bytes + step : bytes * *factor;
  }
  return sizes;
}

Result<std::vector<int>> ParseRoots(std::string_view text) {
  std::vector<int> roots;
  if (text == "all") return roots;
  for (const std::string_view word : BlankSeparated(text, ",")) {
    const std::optional<int> root = ParseInteger<int>(word);
    if (!root || *root < 0) {
      return Wrong("--root", fmt::format("'{}' is neither a rank nor all", ShownText(word)));
    }
    roots.push_back(*root);
  }
  if (roots.empty()) return Wrong("--root", "the list is empty");
  return roots;
}

/// The larger buffer holds this many times `count` elements.
size_t Blocks(Collective kind, int size) {
  switch (kind) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return static_cast<size_t>(size);
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return 1;
  }
  return 1;
}

/// Adds one case for each size that differs from the one before.
void AddSizes(const std::vector<uint64_t>& sizes, BenchCase prototype, int size,
              std::vector<BenchCase>& cases) {
  const size_t unit = SizeOf(prototype.dtype) * Blocks(prototype.kind, size);
  size_t before = 0;
  for (const uint64_t bytes : sizes) {
    const size_t count = std::max<size_t>(bytes / unit, 1);
    if (count == before) continue;
    before = count;
    prototype.count = count;
    prototype.bytes = count * unit;
    cases.push_back(prototype);
  }
}

}  // namespace

std::string_view BenchName(Collective kind) {
  return kind == Collective::kSend ? "send_recv" : Name(kind);
}

bool IsRooted(Collective kind) {
  return kind == Collective::kReduce || kind == Collective::kBroadcast ||
         kind == Collective::kGather || kind == Collective::kScatter;
}

Result<Sweep> ParseSweep(const SweepWords& words) {
  Sweep sweep;
  HVDRAY_ASSIGN_OR_RETURN(sweep.sizes, ParseSizes(words));
  const std::vector<Collective> collectives(std::begin(kCollectives), std::end(kCollectives));
  HVDRAY_ASSIGN_OR_RETURN(sweep.collectives,
                          ParseNames("--collective", words.collectives, collectives, &BenchName));
  HVDRAY_ASSIGN_OR_RETURN(sweep.dtypes, ParseNames("--datatype", words.dtypes, AllOf<DataType>(),
                                                   [](DataType dtype) { return Name(dtype); }));
  HVDRAY_ASSIGN_OR_RETURN(sweep.ops, ParseNames("--op", words.ops, AllOf<ReduceOp>(),
                                                [](ReduceOp op) { return Name(op); }));
  HVDRAY_ASSIGN_OR_RETURN(sweep.roots, ParseRoots(words.roots));
  return sweep;
}

Result<std::vector<BenchCase>> CasesOf(const Sweep& sweep, int size) {
  std::vector<int> roots = sweep.roots;
  if (roots.empty()) {
    roots.resize(static_cast<size_t>(size));
    std::iota(roots.begin(), roots.end(), 0);
  }
  for (const int root : roots) {
    if (root < size) continue;
    return Wrong("--root",
                 fmt::format("no rank {} of {}", root, Count(static_cast<uint64_t>(size), "rank")));
  }
  std::vector<BenchCase> cases;
  for (const Collective kind : sweep.collectives) {
    if (kind == Collective::kSend && size == 1) continue;
    const std::vector<ReduceOp> ops = IsReduction(kind) ? sweep.ops : std::vector{ReduceOp::kSum};
    const std::vector<int> roots_of = IsRooted(kind) ? roots : std::vector{0};
    for (const DataType dtype : sweep.dtypes) {
      for (const ReduceOp op : ops) {
        if (FindReduce(dtype, op) == nullptr) continue;
        for (const int root : roots_of) {
          AddSizes(sweep.sizes, {kind, dtype, op, root}, size, cases);
          if (cases.size() <= kMaxCases) continue;
          return Status(ErrorCode::kUsage, fmt::format("more than {} rows to measure", kMaxCases),
                        "take fewer sizes, types, operations or roots");
        }
      }
    }
  }
  if (cases.empty()) {
    return Status(ErrorCode::kUsage, "nothing to measure",
                  "bitwise operations are for integers, and send_recv needs two ranks");
  }
  return cases;
}

size_t MaxBytes(const std::vector<BenchCase>& cases) {
  size_t most = 0;
  for (const BenchCase& one : cases) most = std::max(most, one.bytes);
  return most;
}

std::string SizeText(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return value == static_cast<double>(static_cast<uint64_t>(value))
             ? fmt::format("{:.0f} {}", value, kUnits[unit])
             : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace hvdray
