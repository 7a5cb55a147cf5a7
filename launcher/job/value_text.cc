// SPDX-License-Identifier: Apache-2.0
// Parsing never depends on the locale, so it goes through from_chars.
#include "launcher/job/value_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

Status Wrong(std::string_view wanted, std::string_view text) {
  return Status(ErrorCode::kUsage, fmt::format("must be {}, not {}", wanted, Quoted(text)));
}

constexpr size_t kMaxPath = 4000;  // Fits a frame.

bool HasPart(std::string_view path, std::string_view wanted) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == wanted) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

std::string Quoted(std::string_view text) { return fmt::format("'{}'", ShownText(text, 80)); }

Result<int64_t> ParseWhole(std::string_view text, int64_t min, int64_t max) {
  const auto value = ParseInteger<int64_t>(WithoutPlus(text));
  if (!value || *value < min || *value > max) {
    return Wrong(fmt::format("a whole number from {} to {}", min, max), text);
  }
  return *value;
}

Result<double> ParseNumber(std::string_view text) {
  const std::optional<double> value = ParseDouble(text);
  if (!value) return Wrong("a number", text);
  return *value;
}

Result<double> ParseBytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {
      {{"KiB", 1024.0},
       {"MiB", 1024.0 * 1024},
       {"GiB", 1024.0 * 1024 * 1024},
       {"TiB", 1024.0 * 1024 * 1024 * 1024},
       {"KB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12},
       {"B", 1}}};
  for (const auto& [unit, bytes] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const Result<double> number = ParseNumber(text.substr(0, text.size() - unit.size()));
    if (number.ok()) return std::ceil(*number * bytes);
    break;
  }
  Result<double> number = ParseNumber(text);
  if (number.ok()) return number;
  return Wrong("a number of bytes, or a size such as 1GiB", text);
}

Result<bool> ParseYesNo(std::string_view text) {
  for (const std::string_view word : {"1", "true", "yes", "on", "y"}) {
    if (Lower(text) == word) return true;
  }
  for (const std::string_view word : {"0", "false", "no", "off", "n"}) {
    if (Lower(text) == word) return false;
  }
  return Wrong("true or false", text);
}

Result<Duration> ParseDuration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 6> kUnits = {
      {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};
  constexpr double kMaxSeconds = 10.0 * 365 * 86400;
  const size_t unit_at = std::min(text.find_first_not_of("+-.0123456789"), text.size());
  double factor = 1;
  bool is_known = unit_at == text.size();
  for (const auto& [unit, seconds] : kUnits) {
    if (text.substr(unit_at) != unit) continue;
    factor = seconds;
    is_known = true;
  }
  Result<double> number = ParseNumber(text.substr(0, unit_at));
  if (!is_known || !number.ok() || std::signbit(*number) || *number * factor > kMaxSeconds) {
    return Wrong("a time such as 30 (seconds), 200ms, 2m, 8h or 2d", text);
  }
  return Duration(static_cast<int64_t>(std::llround(*number * factor * 1e9)));
}

std::string FormatSeconds(Duration duration) {
  const int64_t ns = duration.count();
  std::string text = fmt::format("{}{}", ns < 0 ? "-" : "", std::abs(ns / 1000000000));
  const int64_t fraction = std::abs(ns % 1000000000);
  if (fraction == 0) return text;
  text += fmt::format(".{:09}", fraction);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string ShowDuration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1000);
  return seconds < 100 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string FormatPythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto scientific = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                        std::chars_format::scientific);
  std::string text(buffer.data(), scientific.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  // Python switches to an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) return text;
  const bool is_negative = text.front() == '-';
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) {
    digits = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else {
    const size_t point = static_cast<size_t>(exponent) + 1;
    if (digits.size() < point + 1) digits.append(point + 1 - digits.size(), '0');
    digits.insert(point, ".");
  }
  return is_negative ? "-" + digits : digits;
}

Status AddModules(std::string_view list, size_t limit, std::vector<std::string>& modules) {
  for (;;) {
    const std::string_view name = list.substr(0, list.find(','));
    const bool is_name = !name.empty() && name.front() != '.' && name.back() != '.' &&
                         std::all_of(name.begin(), name.end(), [](char c) {
                           return c == '_' || c == '.' || (c >= '0' && c <= '9') ||
                                  (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                         });
    if (!is_name) {
      return {ErrorCode::kUsage, fmt::format("{} is not a module name", Quoted(name))};
    }
    if (std::find(modules.begin(), modules.end(), name) == modules.end()) {
      modules.emplace_back(name);
    }
    if (modules.size() > limit) {
      return {ErrorCode::kUsage, fmt::format("more than {} modules", limit)};
    }
    if (name.size() == list.size()) return {};
    list.remove_prefix(name.size() + 1);
  }
}

Result<SyncWord> ParseSyncWord(std::string_view word) {
  const auto refuse = [word](std::string_view what) {
    return Status(ErrorCode::kUsage, fmt::format("{}, not {}", what, Quoted(word)));
  };
  if (word.find('\0') != std::string_view::npos) return refuse("must be DIR or DIR:TARGET");
  const size_t colon = word.rfind(':');
  SyncWord parts;
  parts.directory = word.substr(0, colon);
  if (parts.directory.empty()) return refuse("must be DIR or DIR:TARGET");
  if (colon == std::string_view::npos || colon + 1 == word.size()) return parts;
  std::string_view target = word.substr(colon + 1);
  // A shell expands '~' only at the beginning of a word.
  if (target == "~") target = ".";
  if (target.starts_with("~/")) target.remove_prefix(2);
  if (target.starts_with('~')) {
    return refuse("must have a TARGET in your own home directory, or an absolute one");
  }
  if (HasPart(target, "..")) return refuse("must have no '..' in TARGET");
  if (target.size() > kMaxPath) return refuse("must have a TARGET of at most 4000 bytes");
  parts.has_target = true;
  parts.target = target.empty() ? "." : target;
  return parts;
}

std::string SyncText(const SyncWord& word) {
  const bool is_plain = !word.has_target && word.directory.find(':') == std::string::npos;
  return is_plain ? word.directory : fmt::format("{}:{}", word.directory, word.target);
}

}  // namespace hvdray
