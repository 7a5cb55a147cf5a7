// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

namespace hvdray {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMaxDigits = 18;  // Fits an int64_t.

/// A name cut around its number.
struct Parts {
  std::string_view prefix, suffix;
  size_t digits = 0;
  bool is_padded = false;  ///< Has leading zeros.
  int64_t number = -1;     ///< -1: the name has no number.
};

bool IsAddress(std::string_view name) {
  return name.find_first_not_of("0123456789.") == std::string_view::npos;
}

Parts Cut(std::string_view name) {
  const std::string_view label = IsAddress(name) ? name : name.substr(0, name.find('.'));
  const size_t last = label.find_last_of(kDigits);
  if (last == std::string_view::npos) return {.prefix = name};
  const size_t before = label.find_last_not_of(kDigits, last);
  const size_t first = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view digits = name.substr(first, last + 1 - first);
  if (digits.size() > kMaxDigits) return {.prefix = name};
  Parts parts{.prefix = name.substr(0, first), .suffix = name.substr(last + 1)};
  parts.digits = digits.size();
  parts.is_padded = digits.size() > 1 && digits[0] == '0';
  parts.number = 0;
  for (const char digit : digits) parts.number = parts.number * 10 + (digit - '0');
  return parts;
}

/// What names must share to be folded. Width 0: numbers without padding.
using Shape = std::tuple<std::string_view, std::string_view, size_t>;

struct Group {
  Parts parts;
  size_t width = 0;
  std::set<int64_t> numbers;
};

std::string Number(int64_t number, size_t width) { return fmt::format("{:0{}}", number, width); }

/// "3-5,9"; adds to `*left` the hosts of ranges beyond `max_ranges`.
std::string Ranges(const Group& group, size_t max_ranges, size_t* left) {
  std::string text;
  size_t ranges = 0;
  for (auto it = group.numbers.begin(); it != group.numbers.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != group.numbers.end() && *it == last + 1) last = *it;
    if (++ranges > max_ranges) {
      *left += static_cast<size_t>(last - first + 1);
      continue;
    }
    if (!text.empty()) text += ',';
    text += Number(first, group.width);
    if (last > first) text += '-' + Number(last, group.width);
  }
  return text;
}

std::string Write(const Group& group, size_t max_ranges, size_t* left) {
  if (group.parts.number < 0) return std::string(group.parts.prefix);
  const std::string ranges = Ranges(group, max_ranges, left);
  return group.numbers.size() == 1
             ? fmt::format("{}{}{}", group.parts.prefix, ranges, group.parts.suffix)
             : fmt::format("{}[{}]{}", group.parts.prefix, ranges, group.parts.suffix);
}

}  // namespace

std::string CompressHostList(std::span<const std::string> hosts, size_t max_groups) {
  std::set<Shape> padded;
  for (const std::string& host : hosts) {
    const Parts parts = Cut(host);
    if (parts.is_padded) padded.emplace(parts.prefix, parts.suffix, parts.digits);
  }
  std::vector<Group> groups;
  std::map<Shape, size_t> index;
  for (const std::string& host : hosts) {
    const Parts parts = Cut(host);
    // node100 has no leading zero, yet it continues node099.
    Shape shape{parts.prefix, parts.suffix, parts.digits};
    if (!padded.contains(shape)) std::get<2>(shape) = parts.number < 0 ? kMaxDigits + 1 : 0;
    const auto [it, is_new] = index.try_emplace(shape, groups.size());
    if (is_new) groups.push_back({.parts = parts, .width = std::get<2>(shape)});
    groups[it->second].numbers.insert(parts.number);
  }
  std::string text;
  size_t left = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= max_groups) {
      left += groups[i].numbers.size();
      continue;
    }
    if (i > 0) text += ',';
    text += Write(groups[i], max_groups, &left);
  }
  if (left > 0) text += fmt::format(" and {} more", left);
  return text;
}

}  // namespace hvdray
