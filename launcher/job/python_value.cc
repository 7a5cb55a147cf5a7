// Written out by hand rather than with std::regex, which recurses on long input.
#include "launcher/job/python_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

template <size_t N>
bool IsOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string WithoutUnderscores(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

/// Digits of `base`, underscores anywhere; `negative` as the sign was.
std::optional<int64_t> Digits(std::string_view text, int base, bool is_negative) {
  const std::string digits = (is_negative ? "-" : "") + WithoutUnderscores(text);
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> TypeInt(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  if (text.starts_with("0b")) return Digits(text.substr(2), 2, is_negative);
  if (text.starts_with("0x")) return Digits(text.substr(2), 16, is_negative);
  if (text.size() > 1 && text.front() == '0') return Digits(text.substr(1), 8, is_negative);
  return Digits(text, 10, is_negative);
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

std::optional<double> TypeFloat(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr std::array<std::string_view, 6> kInf = {".inf",  ".Inf",  ".INF",
                                                           "+.inf", "+.Inf", "+.INF"};
  static constexpr std::array<std::string_view, 3> kMinusInf = {"-.inf", "-.Inf", "-.INF"};
  static constexpr std::array<std::string_view, 3> kNan = {".nan", ".NaN", ".NAN"};
  if (IsOneOf(text, kInf)) return kInfinity;
  if (IsOneOf(text, kMinusInf)) return -kInfinity;
  if (IsOneOf(text, kNan)) return std::numeric_limits<double>::quiet_NaN();
  if (!IsFloatText(text)) return std::nullopt;
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

std::string FormatPython(const PythonValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const double* number = std::get_if<double>(&value)) return FormatPythonFloat(*number);
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  return "None";
}

bool IsTruthy(const PythonValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return *whole != 0;
  if (const double* number = std::get_if<double>(&value)) return *number != 0.0;
  if (const std::string* text = std::get_if<std::string>(&value)) return !text->empty();
  return false;
}

}  // namespace hvdray
