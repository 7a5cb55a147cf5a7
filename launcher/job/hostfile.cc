// Host files.
#include "launcher/job/hostfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_map>

#include "base/nearest.h"
#include "base/shown_text.h"
#include "base/text.h"
#include "launcher/job/host_word.h"

namespace hvdray {
namespace {

constexpr std::string_view kLineSpaces = " \t\v\f";
constexpr std::string_view kLineHint = "one host a line: 'node1 slots=4' or 'node1:4'";

/// One word of a host file's line and its column from 1.
struct Word {
  std::string_view text;
  size_t column = 1;
};

/// Words of `line` up to a comment; "slots = 4" counts as the one word "slots=4", so each '=' is a
/// word of its own and is put together again by the caller.
std::vector<Word> WordsOfLine(std::string_view line) {
  std::vector<Word> words;
  size_t i = 0;
  while (i < line.size() && line[i] != '#') {
    if (kLineSpaces.find(line[i]) != std::string_view::npos) {
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

/// Words behind the host that mean something; Open MPI spells some in several ways.
enum class Key : uint8_t { kSlots, kMaxSlots, kPort, kUser, kCount };

constexpr size_t kMaxKeyBytes = 40;
constexpr std::array<std::string_view, 4> kKeyNames = {"slots", "max_slots", "port", "user"};

std::optional<Key> KeyOf(std::string_view text) {
  if (text == "max-slots") return Key::kMaxSlots;
  if (text == "username" || text == "user_name" || text == "user-name") return Key::kUser;
  const auto* const found = std::find(kKeyNames.begin(), kKeyNames.end(), text);
  if (found == kKeyNames.end()) return std::nullopt;
  return static_cast<Key>(found - kKeyNames.begin());
}

/// What a line says of each key, wherever in the line.
using Values = std::array<std::optional<Word>, static_cast<size_t>(Key::kCount)>;

std::optional<Word>& At(Values& values, Key key) { return values[static_cast<size_t>(key)]; }

class HostfileParser {
 public:
  explicit HostfileParser(std::string_view file_name) : file_name_(file_name) {}

  Status AddLine(std::string_view line) {
    ++line_;
    const std::vector<Word> words = WordsOfLine(line);
    if (words.empty()) return {};
    size_t next = hosts_.size();
    HVDRAY_RETURN_IF_ERROR(ParseLine(words));
    for (; next < hosts_.size(); ++next) {
      const std::string& name = hosts_[next].host;
      const auto [first, is_new] = line_of_.emplace(name, line_);
      if (is_new) continue;
      const std::string place =
          first->second == line_ ? "in this line" : fmt::format("first in line {}", first->second);
      return Wrong(words[0].column, fmt::format("host {} is listed twice, {}", name, place),
                   "put all slots of a host into one line");
    }
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

  Status ParseLine(const std::vector<Word>& words) {
    HostWord host;
    const Word& first = words[0];
    if (const auto fault = ParseHostWord(first.text, &host)) {
      return Wrong(first.column + fault->offset, fault->message);
    }
    if (host.slots && host.slots->find(':') != std::string_view::npos) {
      return Wrong(first.column, fmt::format("'{}' has too many colons", ShownText(first.text)),
                   "an IPv6 address is written [::1]:slots, a port ssh://host:port:slots");
    }
    // Before what follows: a line that names no host at all is best told so.
    std::vector<HostSlots> named;
    if (const auto fault = AppendHosts(host, 0, kMaxHosts - hosts_.size(), &named)) {
      return Wrong(first.column + fault->offset, fault->message);
    }
    Values values;
    if (host.slots) At(values, Key::kSlots) = Word{*host.slots, first.column + host.slots_offset};
    for (size_t i = 1; i < words.size(); i += 3) {
      HVDRAY_RETURN_IF_ERROR(ParsePair(words, i, host, &values));
    }
    if (!At(values, Key::kSlots)) {
      return Wrong(first.column + first.text.size(),
                   fmt::format("host {} has no slots", ShownText(host.names)));
    }
    HVDRAY_RETURN_IF_ERROR(Apply(values, &named));
    hosts_.insert(hosts_.end(), std::make_move_iterator(named.begin()),
                  std::make_move_iterator(named.end()));
    return {};
  }

  /// words[i], '=', words[i + 2].
  Status ParsePair(const std::vector<Word>& words, size_t i, const HostWord& host,
                   Values* values) const {
    const Word& name = words[i];
    const bool has_value =
        i + 2 < words.size() && words[i + 1].text == "=" && words[i + 2].text != "=";
    if (name.text == "=" || !has_value) {
      return Wrong(name.column, fmt::format("'{}' is not key=value", ShownText(name.text)));
    }
    const std::optional<Key> key = KeyOf(name.text);
    if (!key) return CheckForeignKey(name);
    std::optional<Word>& value = At(*values, *key);
    const bool is_in_host =
        (*key == Key::kPort && host.port != 0) || (*key == Key::kUser && !host.user.empty());
    if (value || is_in_host) {
      return Wrong(name.column, fmt::format("{} {} given twice in this line",
                                            kKeyNames[static_cast<size_t>(*key)],
                                            *key == Key::kSlots ? "are" : "is"));
    }
    value = words[i + 2];
    return {};
  }

  /// Other launchers' keys mean nothing here, but a slip would be lost without a word.
  Status CheckForeignKey(const Word& name) const {
    const std::string meant = Nearest(name.text.substr(0, kMaxKeyBytes), kKeyNames);
    if (meant.empty()) return {};
    return Wrong(name.column, fmt::format("unknown key '{}'", ShownText(name.text)),
                 fmt::format("did you mean {}=?", meant));
  }

  Status ReadCount(const Word& word, Key key, int* count) const {
    const std::string_view name = kKeyNames[static_cast<size_t>(key)];
    if (!IsAllDigits(word.text)) {
      return Wrong(word.column, fmt::format("{}='{}' is not a number", name, ShownText(word.text)));
    }
    const std::optional<int> read = ParseSlots(word.text);
    if (!read) {
      return Wrong(word.column, fmt::format("{}={} is not within 0 to {}", name,
                                            ShownText(word.text), kMaxSlots));
    }
    *count = *read;
    return {};
  }

  Status Apply(Values& values, std::vector<HostSlots>* hosts) const {
    int slots = 0;
    HVDRAY_RETURN_IF_ERROR(ReadCount(*At(values, Key::kSlots), Key::kSlots, &slots));
    if (const auto& most = At(values, Key::kMaxSlots)) {
      int max_slots = 0;
      HVDRAY_RETURN_IF_ERROR(ReadCount(*most, Key::kMaxSlots, &max_slots));
      if (max_slots < slots) {
        return Wrong(most->column, fmt::format("max_slots={} is below slots={}", max_slots, slots));
      }
    }
    uint16_t port = 0;
    if (const auto& word = At(values, Key::kPort)) {
      const std::optional<uint16_t> read = ParsePort(word->text);
      if (!read) {
        return Wrong(word->column,
                     fmt::format("port '{}' is not within 1 to 65535", ShownText(word->text)));
      }
      port = *read;
    }
    const auto& user = At(values, Key::kUser);
    if (user && !IsUserName(user->text)) {
      return Wrong(user->column, fmt::format("'{}' is not a user name", ShownText(user->text)));
    }
    for (HostSlots& host : *hosts) {
      host.slots = slots;
      if (port != 0) host.address.port = port;
      if (user) host.address.user = user->text;
    }
    return {};
  }

  std::string_view file_name_;
  size_t line_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, size_t> line_of_;
};

}  // namespace

std::optional<int> ParseSlots(std::string_view text) {
  int slots = 0;
  if (!IsAllDigits(text)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || slots > kMaxSlots) return std::nullopt;
  return slots;
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
