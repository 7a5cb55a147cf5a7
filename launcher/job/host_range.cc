// Counts before it expands, so that no text costs more memory than the names it may stand for.
#include "launcher/job/host_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxHostBytes = 253;  // A DNS name's limit, RFC 1035.
constexpr size_t kMaxDigits = 18;      // Fits a uint64_t with room for a sum.
constexpr std::string_view kDigits = "0123456789";

bool IsHostByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

/// first to last, written with at least `width` digits.
struct NumberRange {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t width = 0;
};

/// The text before a bracket and the bracket; no ranges: text to the end.
struct Part {
  std::string_view text;
  std::vector<NumberRange> ranges;
};

struct Pattern {
  std::vector<Part> parts;
  size_t shortest = 0;  ///< Bytes of the shortest name, at least.
  uint64_t count = 1;   ///< Names, or more than `room`.
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

bool IsPadded(std::string_view digits) { return digits.size() > 1 && digits[0] == '0'; }

uint64_t ValueOf(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// "7" or "007-130". Returns what is wrong, or nothing.
std::string ParseRange(std::string_view text, NumberRange* range) {
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!IsNumber(first) || !IsNumber(last)) {
    return fmt::format("'{}' is not a number or a range of numbers", ShownText(text));
  }
  if (first.size() > kMaxDigits || last.size() > kMaxDigits) {
    return fmt::format("'{}' has a number of more than {} digits", ShownText(text), kMaxDigits);
  }
  *range = {ValueOf(first), ValueOf(last), first.size()};
  if (range->last < range->first) return fmt::format("range {} is reversed", text);
  if (IsPadded(last) && last.size() != first.size()) {
    return fmt::format("the ends of range {} are padded differently", text);
  }
  return {};
}

class PatternReader {
 public:
  PatternReader(std::string_view text, size_t room) : text_(text), room_(room) {}

  std::optional<HostFault> Read(Pattern* pattern) {
    for (size_t at = 0; at < text_.size();) {
      const size_t open = std::min(text_.find('[', at), text_.size());
      Part part{text_.substr(at, open - at), {}};
      if (auto fault = CheckText(part.text, at)) return fault;
      at = open;
      if (open < text_.size()) {
        const size_t close = text_.find(']', open);
        if (close == std::string_view::npos) return HostFault{open, "this bracket is not closed"};
        if (auto fault = ReadBracket(open + 1, close, &part, pattern)) return fault;
        at = close + 1;
      }
      pattern->shortest += part.text.size();
      if (pattern->shortest > kMaxHostBytes) return NoHostName();
      pattern->parts.push_back(std::move(part));
    }
    if (pattern->parts.empty()) return NoHostName();
    if (pattern->count > room_) {
      return HostFault{0, fmt::format("over {} hosts", kMaxHosts)};
    }
    return std::nullopt;
  }

 private:
  HostFault NoHostName() const {
    return {0, fmt::format("'{}' is not a host name", ShownText(text_))};
  }

  std::optional<HostFault> CheckText(std::string_view part, size_t at) const {
    if (at == 0 && part.starts_with('-')) return NoHostName();
    if (const size_t bracket = part.find(']'); bracket != std::string_view::npos) {
      return HostFault{at + bracket, "']' without a '[' before it"};
    }
    if (!std::all_of(part.begin(), part.end(), IsHostByte)) return NoHostName();
    return std::nullopt;
  }

  /// The text from `begin` to `end` is within brackets.
  std::optional<HostFault> ReadBracket(size_t begin, size_t end, Part* part, Pattern* pattern) {
    uint64_t count = 0;
    size_t shortest = kMaxDigits;
    while (begin <= end) {
      const size_t comma = std::min(text_.find(',', begin), end);
      NumberRange range;
      std::string wrong = ParseRange(text_.substr(begin, comma - begin), &range);
      if (!wrong.empty()) return HostFault{begin, std::move(wrong)};
      // Both factors of the product below stay small: saturated one above the room.
      count = std::min<uint64_t>(count + (range.last - range.first + 1), room_ + 1);
      shortest = std::min(shortest, range.width);
      if (part->ranges.size() <= room_) part->ranges.push_back(range);
      begin = comma + 1;
    }
    pattern->count = std::min<uint64_t>(pattern->count * count, room_ + 1);
    pattern->shortest += shortest;
    return std::nullopt;
  }

  std::string_view text_;
  size_t room_;
};

/// Every name so far followed by every number of the part.
std::vector<std::string> Append(std::vector<std::string> names, const Part& part) {
  for (std::string& name : names) name += part.text;
  if (part.ranges.empty()) return names;
  std::vector<std::string> longer;
  for (const std::string& name : names) {
    for (const NumberRange& range : part.ranges) {
      for (uint64_t number = range.first; number <= range.last; ++number) {
        longer.push_back(fmt::format("{}{:0{}}", name, number, range.width));
      }
    }
  }
  return longer;
}

}  // namespace

bool IsHostName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHostBytes && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), IsHostByte);
}

std::optional<HostFault> ExpandHostRange(std::string_view pattern, size_t room,
                                         std::vector<std::string>* names) {
  Pattern read;
  if (auto fault = PatternReader(pattern, room).Read(&read)) return fault;
  std::vector<std::string> made = {""};
  for (const Part& part : read.parts) made = Append(std::move(made), part);
  for (const std::string& name : made) {
    if (!IsHostName(name)) {
      return HostFault{0, fmt::format("'{}' is not a host name", ShownText(name))};
    }
  }
  names->insert(names->end(), std::make_move_iterator(made.begin()),
                std::make_move_iterator(made.end()));
  return std::nullopt;
}

std::vector<std::string_view> SplitHostItems(std::string_view list) {
  std::vector<std::string_view> items;
  size_t start = 0;
  bool is_bracketed = false;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !is_bracketed)) {
      items.push_back(list.substr(start, i - start));
      start = i + 1;
    } else if (list[i] == '[' || list[i] == ']') {
      is_bracketed = list[i] == '[';
    }
  }
  return items;
}

}  // namespace hvdray
