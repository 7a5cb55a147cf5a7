// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/lease.h"

#include <fmt/format.h>

#include <chrono>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr int64_t kLastYear9999 = 253402300799;

}  // namespace

int64_t LeaseEnd(int64_t now, Duration length) {
  return now + std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(length).count());
}

std::optional<int64_t> ParseLeaseEnd(std::string_view text) {
  const std::optional<int64_t> end = ParseInteger<int64_t>(text);
  if (!end || *end <= 0 || *end > kLastYear9999) return std::nullopt;
  return end;
}

std::string FormatLeaseEnd(int64_t end) { return std::to_string(end); }

std::string LeaseText(int64_t end) {
  const std::chrono::sys_seconds time{std::chrono::seconds(end)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string LeaseKeptText(std::string_view cluster, int64_t end) {
  if (end == 0) return fmt::format("cluster {}: no node has a lease: nothing to do", cluster);
  return fmt::format("cluster {}: its lease ends at {}: nothing to do", cluster, LeaseText(end));
}

}  // namespace hvdray
