// SPDX-License-Identifier: Apache-2.0
// An option as one level gives it, before it has a type, and the reads that rows of the option
// table name because the type of their member does not say enough. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_OPTION_VALUE_H_
#define HVDRAY_LAUNCHER_JOB_OPTION_VALUE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "launcher/job/value_text.h"

namespace hvdray {

/// An option as one level gives it. Flags are "true" or "false".
struct RawOption {
  std::vector<std::string> values;
  std::string origin;  ///< "flag -np", "env HVDRAY_GRACE", "job.yaml:7:3"
  std::string label;   ///< How messages begin: the origin, in files followed by ": <key>".
  /// The value of an option that takes one; empty without values.
  std::string last() const { return values.empty() ? std::string() : values.back(); }
};

// Errors of all reads: kUsage "<label> must be …".

/// A rank, or nullopt for "none".
Result<std::optional<int>> ReadStdinRank(const RawOption& raw);
/// A number of threads, or nullopt for "inherit".
Result<std::optional<int>> ReadThreads(const RawOption& raw);
/// "eth0,ib0", each name once.
Result<std::vector<std::string>> ReadInterfaces(const RawOption& raw);
/// "torch,horovod.torch", each name once, or "auto" alone.
Result<std::vector<std::string>> ReadPreload(const RawOption& raw);
Result<std::vector<SyncWord>> ReadSyncWords(const RawOption& raw);

/// Largest amount of a resource, beyond any real node; keeps sums exact.
inline constexpr double kMaxAmount = 1e15;
Result<double> ReadAmount(const RawOption& raw);
Result<std::optional<double>> ReadOptionalAmount(const RawOption& raw);
/// Bytes, at least 64 MiB.
Result<double> ReadLogLimit(const RawOption& raw);
/// ParseSlotResource() takes each.
Result<std::vector<std::string>> ReadResources(const RawOption& raw);
/// NAME=VALUE each.
Result<std::vector<std::string>> ReadLabels(const RawOption& raw);

/// The name and amount of "disk=0.5" or "memory=1GiB". What Ray counts in bytes may have a unit
/// (ParseBytes()). Refuses CPU and GPU, which have options of their own. Errors: kUsage, beginning
/// with `label`, which names the option.
Result<std::pair<std::string, double>> ParseSlotResource(std::string_view label,
                                                         std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTION_VALUE_H_
