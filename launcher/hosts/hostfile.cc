#include "launcher/hosts/hostfile.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr std::string_view kSpaces = " \t\v\f";
constexpr size_t kMaxHostBytes = 253;  // A DNS name's limit, RFC 1035.
constexpr size_t kMaxHosts = 65536;
constexpr std::string_view kLineHint = "one host a line: 'node1 slots=4' or 'node1:4'";

bool IsHostByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

/// A leading '-' would reach ssh as an option.
bool IsHostName(std::string_view host) {
  if (host.empty() || host.size() > kMaxHostBytes || host[0] == '-') return false;
  for (const char c : host) {
    if (!IsHostByte(c)) return false;
  }
  return true;
}

bool IsAllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int> ParseSlots(std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots > kMaxSlots) {
    return std::nullopt;
  }
  return slots;
}

std::string_view Trimmed(std::string_view text, std::string_view spaces) {
  const size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

Status SlotsOutOfRange(std::string_view slots) {
  return {ErrorCode::kSpecInvalid,
          fmt::format("slots={} is not within 0 to {}", ShownText(slots), kMaxSlots)};
}

/// One word of a host file's line and its column from 1.
struct Word {
  std::string_view text;
  size_t column = 1;
};

/// Words of `line` up to a comment; "slots = 4" counts as the one word "slots=4", so each '=' is a
/// word of its own and is put together again by the caller.
std::vector<Word> SplitWords(std::string_view line) {
  std::vector<Word> words;
  size_t i = 0;
  while (i < line.size() && line[i] != '#') {
    if (kSpaces.find(line[i]) != std::string_view::npos) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (line[i] != '=') {
      end = line.find_first_of(" \t\v\f=#", i);
      if (end == std::string_view::npos) end = line.size();
    }
    words.push_back({line.substr(i, end - i), i + 1});
    i = end;
  }
  return words;
}

class HostfileParser {
 public:
  explicit HostfileParser(std::string_view file_name) : file_name_(file_name) {}

  Status AddLine(std::string_view line) {
    ++line_;
    const std::vector<Word> words = SplitWords(line);
    if (words.empty()) return {};
    HostSlots host;
    HVDRAY_RETURN_IF_ERROR(ParseLine(words, host));
    const auto [first, is_new] = line_of_.emplace(host.host, line_);
    if (!is_new) {
      return Wrong(
          words[0].column,
          fmt::format("host {} is listed twice, first in line {}", host.host, first->second),
          "put all slots of a host into one line");
    }
    if (hosts_.size() == kMaxHosts) {
      return Wrong(1, fmt::format("over {} hosts", kMaxHosts), "");
    }
    hosts_.push_back(std::move(host));
    return {};
  }

  Result<std::vector<HostSlots>> Finish() && {
    if (hosts_.empty()) {
      return Status(ErrorCode::kSpecInvalid, fmt::format("{}: no host in this file", file_name_),
                    std::string(kLineHint));
    }
    return std::move(hosts_);
  }

 private:
  Status Wrong(size_t column, std::string_view what, std::string_view hint = kLineHint) const {
    return {ErrorCode::kSpecInvalid, fmt::format("{}:{}:{}: {}", file_name_, line_, column, what),
            std::string(hint)};
  }

  Status ParseLine(const std::vector<Word>& words, HostSlots& host) const {
    std::string_view name = words[0].text;
    std::optional<Word> slots;
    if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
      slots = Word{name.substr(colon + 1), words[0].column + colon + 1};
      name = name.substr(0, colon);
    }
    if (!IsHostName(name)) {
      return Wrong(words[0].column,
                   fmt::format("'{}' is not a host name", ShownText(words[0].text)));
    }
    for (size_t i = 1; i < words.size(); i += 3) {
      HVDRAY_RETURN_IF_ERROR(ParsePair(words, i, slots));
    }
    if (!slots) {
      return Wrong(words[0].column + words[0].text.size(),
                   fmt::format("host {} has no slots", name));
    }
    if (!IsAllDigits(slots->text)) {
      return Wrong(slots->column,
                   fmt::format("slots='{}' is not a number", ShownText(slots->text)));
    }
    const std::optional<int> count = ParseSlots(slots->text);
    if (!count) return Wrong(slots->column, SlotsOutOfRange(slots->text).message());
    host = {std::string(name), *count};
    return {};
  }

  /// words[i], '=', words[i + 2].
  Status ParsePair(const std::vector<Word>& words, size_t i, std::optional<Word>& slots) const {
    const Word& key = words[i];
    const bool has_value =
        i + 2 < words.size() && words[i + 1].text == "=" && words[i + 2].text != "=";
    if (key.text == "=" || !has_value) {
      return Wrong(key.column, fmt::format("'{}' is not key=value", ShownText(key.text)));
    }
    if (key.text != "slots") return {};
    if (slots) return Wrong(key.column, "slots are given twice in this line");
    slots = words[i + 2];
    return {};
  }

  std::string_view file_name_;
  size_t line_ = 0;
  std::vector<HostSlots> hosts_;
  std::map<std::string, size_t> line_of_;
};

}  // namespace

Result<std::vector<HostSlots>> ParseHostList(std::string_view list) {
  std::vector<HostSlots> hosts;
  std::map<std::string, size_t, std::less<>> item_of;
  for (size_t start = 0, item = 1; start <= list.size(); ++item) {
    const size_t end = std::min(list.find(',', start), list.size());
    const std::string_view text = Trimmed(list.substr(start, end - start), " \t\v\f\r\n");
    start = end + 1;
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const std::string_view slots =
        colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    if (!IsHostName(name) || !IsAllDigits(slots)) {
      return Status(ErrorCode::kSpecInvalid,
                    "Invalid host input, please make sure it has format as : "
                    "worker-0:2,worker-1:2.",
                    fmt::format("item {} is '{}'", item, ShownText(text)));
    }
    const std::optional<int> count = ParseSlots(slots);
    if (!count) {
      return SlotsOutOfRange(slots).WithContext(
          fmt::format("item {} ('{}')", item, ShownText(text)));
    }
    const auto [first, is_new] = item_of.emplace(name, item);
    if (!is_new) {
      return Status(
          ErrorCode::kSpecInvalid,
          fmt::format("host {} is listed twice: items {} and {}", name, first->second, item),
          fmt::format("add the slots up: {}:{}", name, hosts[first->second - 1].slots + *count));
    }
    if (hosts.size() == kMaxHosts) {
      return Status(ErrorCode::kSpecInvalid, fmt::format("over {} hosts", kMaxHosts));
    }
    hosts.push_back({std::string(name), *count});
  }
  return hosts;
}

Result<std::vector<HostSlots>> ParseHostfile(std::string_view text, std::string_view file_name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  HostfileParser parser(file_name);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    HVDRAY_RETURN_IF_ERROR(parser.AddLine(line));
  }
  return std::move(parser).Finish();
}

}  // namespace hvdray
