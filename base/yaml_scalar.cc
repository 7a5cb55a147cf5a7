// SPDX-License-Identifier: Apache-2.0
// Scalars are typed by hand: std::regex recurses on long input.
#include "base/yaml_scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/text.h"

namespace hvdray {
namespace {

template <size_t N>
bool IsOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// So that a further part still fits.
constexpr int64_t kMaxBase60 = std::numeric_limits<int64_t>::max() / 61;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string WithoutUnderscores(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

/// Digits of `base`, underscores anywhere; `negative` as the sign was.
std::optional<int64_t> Digits(std::string_view text, int base, bool is_negative) {
  if (text.starts_with('-')) return std::nullopt;
  return ParseInteger<int64_t>((is_negative ? "-" : "") + WithoutUnderscores(text), base);
}

/// "12:30": digits, then parts of a minute or an hour, each one or two digits below 60.
std::optional<int64_t> Base60(std::string_view text, bool is_negative) {
  const size_t first = text.find(':');
  std::optional<int64_t> value = Digits(text.substr(0, first), 10, is_negative);
  for (text.remove_prefix(first); value && !text.empty();) {
    const size_t next = std::min(text.find(':', 1), text.size());
    const std::string_view part = text.substr(1, next - 1);
    const std::optional<int64_t> digits = ParseInteger<int64_t>(part);
    if (!IsAllDigits(part) || part.size() > 2 || !digits || *digits >= 60) return std::nullopt;
    if (*value > kMaxBase60 || *value < -kMaxBase60) return std::nullopt;
    value = *value * 60 + (is_negative ? -*digits : *digits);
    text.remove_prefix(next);
  }
  return value;
}

std::optional<int64_t> TypeInt(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  if (text.starts_with("0b")) return Digits(text.substr(2), 2, is_negative);
  if (text.starts_with("0x")) return Digits(text.substr(2), 16, is_negative);
  if (text.front() == '0')
    return WithoutUnderscores(text) == "0" ? 0 : Digits(text, 8, is_negative);
  return text.find(':') == std::string_view::npos ? Digits(text, 10, is_negative)
                                                  : Base60(text, is_negative);
}

/// [-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)? and \.[0-9][0-9_]*([eE][-+][0-9]+)?
bool IsFloatText(std::string_view text) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  if (has_sign) text.remove_prefix(1);
  const auto skip = [&text](bool with_underscores) {
    size_t i = 0;
    while (i < text.size() && (IsDigit(text[i]) || (with_underscores && text[i] == '_'))) ++i;
    text.remove_prefix(i);
  };
  const bool starts_with_dot = text.starts_with('.');
  if (!starts_with_dot) {
    if (text.empty() || !IsDigit(text.front())) return false;
    skip(true);
    if (!text.starts_with('.')) return false;
  }
  text.remove_prefix(1);
  if (starts_with_dot && (has_sign || text.empty() || !IsDigit(text.front()))) return false;
  skip(true);
  if (text.empty()) return true;
  if (text.size() < 3 || (text[0] != 'e' && text[0] != 'E')) return false;
  if (text[1] != '-' && text[1] != '+') return false;
  text.remove_prefix(2);
  skip(false);
  return text.empty();
}

/// "1:30.5": the last part has a fraction. Summed up from there, as Python does.
std::optional<double> Base60Float(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const size_t dot = std::min(text.find('.'), text.size());
  if (dot == text.size() || text.find(':') > dot) return std::nullopt;
  if (!IsDigit(text.front()) || !Base60(text.substr(0, dot), false)) return std::nullopt;
  const std::string fraction = WithoutUnderscores(text.substr(dot + 1));
  if (!fraction.empty() && !IsAllDigits(fraction)) return std::nullopt;
  const size_t last = text.substr(0, dot).rfind(':');
  double value =
      *ParseDouble(fmt::format("{}.{}", text.substr(last + 1, dot - last - 1), fraction));
  double base = 60;
  for (text = text.substr(0, last); !text.empty(); base *= 60) {
    const size_t colon = text.rfind(':');
    const size_t begin = colon == std::string_view::npos ? 0 : colon + 1;
    value += static_cast<double>(*Digits(text.substr(begin), 10, false)) * base;
    text = text.substr(0, begin == 0 ? 0 : colon);
  }
  return is_negative ? -value : value;
}

std::optional<double> TypeFloat(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr std::array<std::string_view, 6> kInf = {".inf",  ".Inf",  ".INF",
                                                           "+.inf", "+.Inf", "+.INF"};
  static constexpr std::array<std::string_view, 3> kMinusInf = {"-.inf", "-.Inf", "-.INF"};
  static constexpr std::array<std::string_view, 3> kNan = {".nan", ".NaN", ".NAN"};
  if (IsOneOf(text, kInf)) return kInfinity;
  if (IsOneOf(text, kMinusInf)) return -kInfinity;
  if (IsOneOf(text, kNan)) return std::numeric_limits<double>::quiet_NaN();
  if (!IsFloatText(text)) return Base60Float(text);
  std::string plain = WithoutUnderscores(text);
  if (plain.starts_with('+')) plain.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (end != plain.data() + plain.size() || error == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (error == std::errc()) return value;
  // Out of range: Python gives infinity for what is too large and zero for what is too small.
  const bool is_tiny =
      plain.find_first_of("eE") != std::string::npos && plain[plain.find_first_of("eE") + 1] == '-';
  const double magnitude = is_tiny ? 0.0 : kInfinity;
  return plain.starts_with('-') ? -magnitude : magnitude;
}

/// "2026-11-28", with or without a time.
bool IsDate(std::string_view text) {
  return text.size() >= 8 && IsAllDigits(text.substr(0, 4)) && text[4] == '-' && IsDigit(text[5]) &&
         text.find('-', 6) <= 7;
}

}  // namespace

PythonValue TypePlainScalar(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  static constexpr std::array<std::string_view, 9> kTrue = {"yes",  "Yes", "YES", "true", "True",
                                                            "TRUE", "on",  "On",  "ON"};
  static constexpr std::array<std::string_view, 9> kFalse = {
      "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  if (IsOneOf(text, kNull)) return std::monostate();
  if (IsOneOf(text, kTrue)) return true;
  if (IsOneOf(text, kFalse)) return false;
  if (const std::optional<int64_t> whole = TypeInt(text)) return *whole;
  if (const std::optional<double> number = TypeFloat(text)) return *number;
  return std::string(text);
}

bool IsTypedWithoutQuotes(std::string_view text) {
  // PyYAML has no value for these two.
  return !std::holds_alternative<std::string>(TypePlainScalar(text)) || IsDate(text) ||
         ParseDouble(text).has_value() || text == "=" || text == "<<";
}

std::string FloatText(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

}  // namespace hvdray
