// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/hostfile.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/tcp_address.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// A word that names hosts, taken apart. Views into the word.
struct HostWord {
  std::string_view user;                  ///< Empty: none.
  std::string_view names;                 ///< May have ranges; IPv6 without its brackets.
  size_t names_offset = 0;                ///< Where `names` (or its bracket) begins in the word.
  bool is_ipv6 = false;                   ///< [address] or [address%zone]
  uint16_t port = 0;                      ///< 0: none.
  std::optional<std::string_view> slots;  ///< As written, unchecked.
  size_t slots_offset = 0;
};

/// "host", "user@host", "[fe80::1]", each with or without ":slots". What follows a plain host is
/// its slots, as in Horovod and hydra; only after "ssh://" is the first number a port:
/// "ssh://user@host:2222:4", "ssh://host:2222". Returns what is wrong with the user, the port or
/// the brackets of an address, or nullopt. AppendHosts() checks the host.
std::optional<HostFault> ParseHostWord(std::string_view text, HostWord* word);

/// Appends all hosts of the word, at most `room`, each with `slots`, to `hosts`. Returns what is
/// wrong with the names, as ExpandHostRange() does.
std::optional<HostFault> AppendHosts(const HostWord& word, int slots, size_t room,
                                     std::vector<HostSlots>* hosts);

constexpr std::string_view kLineSpaces = " \t\v\f";
constexpr std::string_view kLineHint = "one host per line: 'node1 slots=4' or 'node1:4'";

/// A word of a host file and its column, from 1.
struct Word {
  std::string_view text;
  size_t column = 1;
};

/// The words of `line` up to a comment. Each '=' is a word of its own, so that "slots = 4" and
/// "slots=4" give the same words.
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

/// The keys that have a meaning; Open MPI spells some in several ways.
enum class Key : uint8_t { kSlots, kMaxSlots, kPort, kUser, kCount };

constexpr size_t kMaxKeyBytes = 40;
constexpr std::array<std::string_view, 4> kKeyNames = {"slots", "max_slots", "port", "user"};

constexpr std::array<std::string_view, 8> kCountNames = {
    "cpus", "gpus", "np", "nproc", "num_gpus", "num_proc", "ncpus", "processes"};

std::optional<Key> KeyOf(std::string_view text) {
  if (text == "max-slots") return Key::kMaxSlots;
  if (text == "cpu" || text == "count") return Key::kSlots;  // so for mpirun
  if (text == "username" || text == "user_name" || text == "user-name") return Key::kUser;
  const auto* const found = std::find(kKeyNames.begin(), kKeyNames.end(), text);
  if (found == kKeyNames.end()) return std::nullopt;
  return static_cast<Key>(found - kKeyNames.begin());
}

/// The value that a line gives each key.
using Values = std::array<std::optional<Word>, static_cast<size_t>(Key::kCount)>;

std::optional<Word>& At(Values& values, Key key) { return values[static_cast<size_t>(key)]; }

class HostfileParser {
 public:
  HostfileParser(std::string_view file_name, int default_slots)
      : file_name_(file_name), default_slots_(default_slots) {}

  Status AddLine(std::string_view line) {
    ++line_;
    const std::vector<Word> words = WordsOfLine(line);
    if (words.empty()) return {};
    std::vector<HostSlots> named;
    HVDRAY_ASSIGN_OR_RETURN(const bool is_bare, ParseLine(words, &named));
    for (HostSlots& host : named) {
      const auto [first, is_new] =
          seen_.emplace(HostNameKey(host.host), Seen{line_, host.host, hosts_.size(), is_bare});
      if (is_new) {
        hosts_.push_back(std::move(host));
        continue;
      }
      HVDRAY_RETURN_IF_ERROR(Repeat(words[0].column, host, is_bare, first->second));
    }
    return {};
  }

  Result<std::vector<HostSlots>> Finish() && {
    if (hosts_.empty()) {
      return Status(ErrorCode::kSpecInvalid, fmt::format("{}: the file names no host", file_name_),
                    std::string(kLineHint));
    }
    return std::move(hosts_);
  }

 private:
  struct Seen {
    size_t line = 0;
    std::string name;
    size_t index = 0;  // in hosts_
    bool is_bare = false;
  };

  // A file of names alone may have one line for each slot, as PBS_NODEFILE has.
  Status Repeat(size_t column, const HostSlots& host, bool is_bare, const Seen& first) {
    if (is_bare && first.is_bare && first.line != line_) {
      int& slots = hosts_[first.index].slots;
      if (slots <= kMaxSlots - host.slots) {
        slots += host.slots;
        return {};
      }
      return Wrong(column, fmt::format("host {} has more than {} slots", host.host, kMaxSlots));
    }
    const std::string place = fmt::format(
        "{}{}", first.line == line_ ? "on this line" : fmt::format("first on line {}", first.line),
        first.name == host.host ? "" : fmt::format(" as {}", first.name));
    return Wrong(column, fmt::format("host {} is listed twice, {}", host.host, place),
                 "put all slots of a host on one line");
  }

  Status Wrong(size_t column, std::string_view what, std::string_view hint = kLineHint) const {
    return {ErrorCode::kSpecInvalid, fmt::format("{}:{}:{}: {}", file_name_, line_, column, what),
            std::string(hint)};
  }

  /// Appends the line's hosts to `named`. True: it has nothing but their names.
  Result<bool> ParseLine(const std::vector<Word>& words, std::vector<HostSlots>* named) {
    HostWord host;
    const Word& first = words[0];
    if (const auto fault = ParseHostWord(first.text, &host)) {
      return Wrong(first.column + fault->offset, fault->message);
    }
    if (host.slots && host.slots->find(':') != std::string_view::npos) {
      return Wrong(first.column, fmt::format("'{}' has too many colons", ShownText(first.text)),
                   "an IPv6 address is written [::1]:slots, a port ssh://host:port:slots");
    }
    // Checked first: if the line names no host, that is the best message.
    if (const auto fault = AppendHosts(host, 0, kMaxHosts - hosts_.size(), named)) {
      return Wrong(first.column + fault->offset, fault->message);
    }
    Values values;
    if (host.slots) At(values, Key::kSlots) = Word{*host.slots, first.column + host.slots_offset};
    for (size_t i = 1; i < words.size(); i += 3) {
      HVDRAY_RETURN_IF_ERROR(ParsePair(words, i, host, &values));
    }
    HVDRAY_RETURN_IF_ERROR(Apply(values, named));
    return words.size() == 1 && !host.slots && host.user.empty() && host.port == 0;
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
      return Wrong(name.column, fmt::format("{} {} given twice on this line",
                                            kKeyNames[static_cast<size_t>(*key)],
                                            *key == Key::kSlots ? "are" : "is"));
    }
    value = words[i + 2];
    return {};
  }

  /// Ignores the keys of other launchers, but neither a misspelling of ours nor another word for
  /// slots: the job would run on fewer.
  Status CheckForeignKey(const Word& name) const {
    const std::string text = Lower(name.text.substr(0, kMaxKeyBytes));
    const bool is_count =
        std::find(kCountNames.begin(), kCountNames.end(), text) != kCountNames.end();
    const std::string meant = is_count ? std::string(kKeyNames.front()) : Nearest(text, kKeyNames);
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
      return Wrong(word.column,
                   fmt::format("{}={} is not from 0 to {}", name, ShownText(word.text), kMaxSlots));
    }
    *count = *read;
    return {};
  }

  Status Apply(Values& values, std::vector<HostSlots>* hosts) const {
    int slots = default_slots_;
    const auto& given = At(values, Key::kSlots);
    if (given) HVDRAY_RETURN_IF_ERROR(ReadCount(*given, Key::kSlots, &slots));
    if (const auto& most = At(values, Key::kMaxSlots)) {
      int max_slots = 0;
      HVDRAY_RETURN_IF_ERROR(ReadCount(*most, Key::kMaxSlots, &max_slots));
      if (!given) slots = std::min(slots, max_slots);
      if (max_slots < slots) {
        return Wrong(most->column, fmt::format("max_slots={} is below slots={}", max_slots, slots));
      }
    }
    uint16_t port = 0;
    if (const auto& word = At(values, Key::kPort)) {
      const std::optional<uint16_t> read = ParsePort(word->text);
      if (!read) {
        return Wrong(word->column,
                     fmt::format("port '{}' is not from 1 to 65535", ShownText(word->text)));
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
  const int default_slots_;
  size_t line_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, Seen> seen_;  // by HostNameKey()
};

constexpr std::string_view kScheme = "ssh://";
constexpr size_t kMaxUserBytes = 64;
constexpr size_t kMaxZoneBytes = 15;  // An interface name on Linux.

/// Address and zone of "fe80::1%eth0"; the zone may be empty.
struct Ipv6 {
  std::string canonical;
  std::string_view zone;
};

std::optional<Ipv6> ParseIpv6(std::string_view text) {
  const size_t percent = text.find('%');
  const std::string number(text.substr(0, percent));
  in6_addr binary{};
  if (number.find('\0') != std::string::npos ||
      ::inet_pton(AF_INET6, number.c_str(), &binary) != 1) {
    return std::nullopt;
  }
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  ::inet_ntop(AF_INET6, &binary, canonical.data(), canonical.size());
  Ipv6 address{canonical.data(), {}};
  if (percent == std::string_view::npos) return address;
  address.zone = text.substr(percent + 1);
  if (!IsHostName(address.zone) || address.zone.size() > kMaxZoneBytes) return std::nullopt;
  return address;
}

/// Horovod splits names at ':', and ssh takes a leading '-' for an option.
std::string PlainName(const Ipv6& address) {
  std::string name = address.canonical;
  if (name.starts_with(':')) name.insert(0, "0");
  if (name.ends_with(':')) name += '0';
  std::replace(name.begin(), name.end(), ':', '-');
  return address.zone.empty() ? name : fmt::format("{}_{}", name, address.zone);
}

/// Takes the user off the front of `*rest`.
std::optional<HostFault> ParseUser(std::string_view* rest, size_t* at, HostWord* word) {
  const size_t sign = rest->rfind('@');
  if (sign == std::string_view::npos) return std::nullopt;
  word->user = rest->substr(0, sign);
  if (!IsUserName(word->user)) {
    return HostFault{*at, fmt::format("'{}' is not a user name", ShownText(word->user))};
  }
  rest->remove_prefix(sign + 1);
  *at += sign + 1;
  return std::nullopt;
}

/// Takes the host off the front of `*rest`, so that it is empty or begins with ':'.
std::optional<HostFault> ParseName(std::string_view* rest, size_t* at, HostWord* word) {
  word->names_offset = *at;
  const size_t close = rest->find(']');
  const std::string_view bracket = rest->substr(0, close);
  if (bracket.starts_with('[') && bracket.find(':') != std::string_view::npos) {
    word->names = bracket.substr(1);
    word->is_ipv6 = close != std::string_view::npos && ParseIpv6(word->names).has_value();
    const std::string_view after = word->is_ipv6 ? rest->substr(close + 1) : "";
    if (!word->is_ipv6 || !(after.empty() || after[0] == ':')) {
      return HostFault{*at,
                       fmt::format("'{}' is not an IPv6 address in brackets", ShownText(*rest))};
    }
    *rest = after;
    *at += close + 1;
    return std::nullopt;
  }
  word->names = rest->substr(0, rest->find(':'));
  rest->remove_prefix(word->names.size());
  *at += word->names.size();
  return std::nullopt;
}

/// Takes the port off the front of `*rest`, which is ":2222" or ":2222:4" after "ssh://".
std::optional<HostFault> ParsePortPart(std::string_view* rest, size_t* at, HostWord* word) {
  if (rest->empty()) return std::nullopt;
  const std::string_view text = rest->substr(1, rest->find(':', 1) - 1);
  const std::optional<uint16_t> port = ParsePort(text);
  if (!port) {
    return HostFault{*at + 1, fmt::format("port '{}' is not from 1 to 65535", ShownText(text))};
  }
  word->port = *port;
  rest->remove_prefix(1 + text.size());
  *at += 1 + text.size();
  return std::nullopt;
}

constexpr size_t kMaxHostBytes = 253;  // A DNS name's limit, RFC 1035.
constexpr size_t kMaxDigits = 18;      // Fits an int64_t, with room for a sum.

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

/// A text and the bracket after it; no ranges: the text at the end.
struct Part {
  std::string_view text;
  std::vector<NumberRange> ranges;
};

struct Pattern {
  std::vector<Part> parts;
  size_t shortest = 0;  ///< No name has fewer bytes.
  uint64_t count = 1;   ///< Names; saturates above `room`.
};

bool IsPadded(std::string_view digits) { return digits.size() > 1 && digits[0] == '0'; }

uint64_t ValueOf(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// "7" or "007-130". Returns what is wrong, or an empty text.
std::string ParseRange(std::string_view text, NumberRange* range) {
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!IsAllDigits(first) || !IsAllDigits(last)) {
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
      return HostFault{0, fmt::format("more than {} hosts", kMaxHosts)};
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

  /// Reads the text from `begin` to `end`, which is within brackets.
  std::optional<HostFault> ReadBracket(size_t begin, size_t end, Part* part, Pattern* pattern) {
    uint64_t count = 0;
    size_t shortest = kMaxDigits;
    while (begin <= end) {
      const size_t comma = std::min(text_.find(',', begin), end);
      NumberRange range;
      std::string wrong = ParseRange(text_.substr(begin, comma - begin), &range);
      if (!wrong.empty()) return HostFault{begin, std::move(wrong)};
      // Saturates one above the room, so the product below cannot overflow.
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

class HostListParser {
 public:
  Status AddItem(std::string_view text) {
    ++item_;
    HostWord word;
    if (const auto fault = ParseHostWord(text, &word)) return Wrong(text, fault->message);
    if (!word.slots || !IsAllDigits(*word.slots)) return NotHostAndSlots(text);
    if (!word.is_ipv6 && word.names.find('[') == std::string_view::npos &&
        !IsHostName(word.names)) {
      return NotHostAndSlots(text);
    }
    const std::optional<int> slots = ParseSlots(*word.slots);
    if (!slots) {
      return Wrong(text,
                   fmt::format("slots={} is not from 0 to {}", ShownText(*word.slots), kMaxSlots));
    }
    size_t next = hosts_.size();
    if (const auto fault = AppendHosts(word, *slots, kMaxHosts - next, &hosts_)) {
      return Wrong(text, fault->message);
    }
    for (; next < hosts_.size(); ++next) HVDRAY_RETURN_IF_ERROR(CheckNew(hosts_[next]));
    return {};
  }

  std::vector<HostSlots> Take() && { return std::move(hosts_); }

 private:
  struct Seen {
    size_t item = 0;
    int slots = 0;
    std::string name;
  };

  Status Wrong(std::string_view text, std::string_view what) const {
    return {ErrorCode::kSpecInvalid,
            fmt::format("item {} ('{}'): {}", item_, ShownText(text), what)};
  }

  Status NotHostAndSlots(std::string_view text) const {
    std::string hint = fmt::format("item {} is '{}'", item_, ShownText(text));
    if (IsHostName(text)) {
      hint += fmt::format(", without its number of workers: {}:4", text);
    } else if (text.find(':') != text.rfind(':')) {
      hint += "; a port is written ssh://host:port:slots, an IPv6 address [::1]:slots";
    }
    return {ErrorCode::kSpecInvalid,
            "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2.",
            std::move(hint)};
  }

  Status CheckNew(const HostSlots& host) {
    const auto [seen, is_new] =
        seen_.emplace(HostNameKey(host.host), Seen{item_, host.slots, host.host});
    if (is_new) return {};
    const Seen& first = seen->second;
    const std::string place =
        fmt::format("{}{}",
                    first.item == item_ ? fmt::format("both times in item {}", item_)
                                        : fmt::format("items {} and {}", first.item, item_),
                    first.name == host.host ? "" : fmt::format(", first as {}", first.name));
    return {ErrorCode::kSpecInvalid, fmt::format("host {} is listed twice: {}", host.host, place),
            fmt::format("add up the slots: {}:{}", host.host, first.slots + host.slots)};
  }

  size_t item_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, Seen> seen_;  // by HostNameKey()
};

class DiscoveryParser {
 public:
  DiscoveryParser(std::optional<int> default_slots, std::string* warning, HostFinder finder)
      : default_slots_(default_slots), warning_(warning), finder_(finder) {}

  Status AddLine(std::string_view text) {
    ++line_;
    if (text.empty()) return {};
    HostWord word;
    if (const auto fault = ParseHostWord(text, &word)) return Wrong(fault->message);
    std::optional<int> slots = default_slots_;
    if (word.slots) {
      if (word.slots->find(':') != std::string_view::npos) {
        return Wrong(fmt::format("'{}' has too many colons", ShownText(text)));
      }
      slots = ParseSlots(*word.slots);
      if (!slots) {
        return Wrong(fmt::format("slots '{}' in '{}' is not a number from 0 to {}",
                                 ShownText(*word.slots), ShownText(text), kMaxSlots));
      }
    }
    std::vector<HostSlots> named;
    if (const auto fault =
            AppendHosts(word, slots.value_or(0), kMaxHosts - hosts_.size(), &named)) {
      return Wrong(fault->message);
    }
    if (!slots) {
      return Wrong(fmt::format("host {} has no slots", named.front().host),
                   finder_ == HostFinder::kScript
                       ? "make the script print host:slots, or give --slots-per-host"
                       : "make the client list host:slots, or give --slots-per-host");
    }
    for (HostSlots& host : named) Add(std::move(host));
    return {};
  }

  std::vector<HostSlots> Take() && { return std::move(hosts_); }

 private:
  Status Wrong(std::string_view what,
               std::string_view hint = "one host per line: 'node1' or 'node1:4'") const {
    return {ErrorCode::kSpecInvalid, fmt::format("line {}: {}", line_, what), std::string(hint)};
  }

  void Add(HostSlots host) {
    const auto [seen, is_new] = places_.try_emplace(HostNameKey(host.host), hosts_.size(), line_);
    if (is_new) return hosts_.push_back(std::move(host));
    const auto& [index, first_line] = seen->second;
    const bool is_same = hosts_[index].slots == host.slots && hosts_[index].address == host.address;
    if (is_same || !warning_->empty()) return;
    *warning_ = fmt::format(
        "{} host {} twice, '{}' on line {} and '{}' on line {}: using the first",
        finder_ == HostFinder::kScript ? "the discovery script prints" : "the client lists",
        host.host, HostText(hosts_[index]), first_line, HostText(host), line_);
  }

  const std::optional<int> default_slots_;
  std::string* warning_;
  const HostFinder finder_;
  size_t line_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, std::pair<size_t, size_t>> places_;  // by key: index, line
};

}  // namespace

std::optional<int> ParseSlots(std::string_view text) {
  const auto slots = ParseInteger<int>(text);
  return slots && IsAllDigits(text) && *slots <= kMaxSlots ? slots : std::nullopt;
}

Result<std::vector<HostSlots>> ParseHostfile(std::string_view text, std::string_view file_name,
                                             std::optional<int> default_slots) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  HostfileParser parser(file_name, default_slots.value_or(1));
  for (std::string_view line : LinesOf(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    HVDRAY_RETURN_IF_ERROR(parser.AddLine(line));
  }
  return std::move(parser).Finish();
}

bool IsUserName(std::string_view user) {
  return !user.empty() && user.size() <= kMaxUserBytes && user[0] != '-' &&
         std::all_of(user.begin(), user.end(), [](char c) {
           return c == '+' || IsHostName(std::string{'a', c});
         });
}

namespace {

std::optional<HostFault> ParseHostWord(std::string_view text, HostWord* word) {
  *word = HostWord();
  std::string_view rest = text;
  size_t at = 0;
  const bool has_scheme = text.starts_with(kScheme);
  if (has_scheme) {
    rest.remove_prefix(kScheme.size());
    at = kScheme.size();
  }
  if (auto fault = ParseUser(&rest, &at, word)) return fault;
  if (auto fault = ParseName(&rest, &at, word)) return fault;
  if (has_scheme) {
    if (auto fault = ParsePortPart(&rest, &at, word)) return fault;
  }
  if (!rest.empty()) {
    word->slots = rest.substr(1);
    word->slots_offset = at + 1;
  }
  return std::nullopt;
}

std::optional<HostFault> AppendHosts(const HostWord& word, int slots, size_t room,
                                     std::vector<HostSlots>* hosts) {
  std::vector<std::string> names;
  if (word.is_ipv6) {
    names.emplace_back(word.names);
  } else if (auto fault = ExpandHostRange(word.names, room, &names)) {
    return HostFault{fault->offset + word.names_offset, fault->message};
  }
  if (names.size() > room) {
    return HostFault{word.names_offset, fmt::format("more than {} hosts", kMaxHosts)};
  }
  for (const std::string& name : names) {
    HostSlots host = MakeHostSlots(name, slots);
    host.address.user = word.user;
    host.address.port = word.port;
    hosts->push_back(std::move(host));
  }
  return std::nullopt;
}

}  // namespace

HostSlots MakeHostSlots(std::string_view name, int slots) {
  HostSlots host{std::string(name), slots};
  const std::optional<Ipv6> address =
      name.find(':') == std::string_view::npos ? std::nullopt : ParseIpv6(name);
  if (!address) return host;
  host.host = PlainName(*address);
  host.address.name = address->canonical;
  if (!address->zone.empty()) host.address.name += fmt::format("%{}", address->zone);
  return host;
}

std::string HostText(const HostSlots& host) {
  const HostAddress& address = host.address;
  return fmt::format("{}{}{}{}{}:{}", address.port == 0 ? "" : kScheme, address.user,
                     address.user.empty() ? "" : "@",
                     address.name.empty() ? host.host : fmt::format("[{}]", address.name),
                     address.port == 0 ? "" : fmt::format(":{}", address.port), host.slots);
}

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

Result<std::vector<HostSlots>> ParseHostList(std::string_view list) {
  HostListParser parser;
  for (const std::string_view item : SplitHostItems(list)) {
    HVDRAY_RETURN_IF_ERROR(parser.AddItem(Trimmed(item)));
  }
  return std::move(parser).Take();
}

Result<std::vector<HostSlots>> ParseDiscoveredHosts(std::string_view text,
                                                    std::optional<int> default_slots,
                                                    std::string* warning, HostFinder finder) {
  warning->clear();
  DiscoveryParser parser(default_slots, warning, finder);
  for (const std::string_view line : LinesOf(text)) {
    HVDRAY_RETURN_IF_ERROR(parser.AddLine(Trimmed(line)));
  }
  return std::move(parser).Take();
}

namespace {

constexpr std::string_view kDigits = "0123456789";

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
