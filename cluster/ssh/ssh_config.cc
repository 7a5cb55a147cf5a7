// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kConfigBlanks = " \t\r\n\f";

/// Splits words at blanks; double quotes keep blanks in a word; '#' begins a comment.
std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == ' ' || text[i] == '\t') {
      ++i;
      continue;
    }
    if (text[i] == '#') break;
    std::string word;
    bool is_quoted = false;
    for (; i < text.size() && (is_quoted || (text[i] != ' ' && text[i] != '\t')); ++i) {
      if (text[i] == '"') {
        is_quoted = !is_quoted;
      } else {
        word.push_back(text[i]);
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

/// "Keyword value", "Keyword=value" or "Keyword = value".
SshConfigLine SplitLine(std::string_view line) {
  SshConfigLine split;
  const size_t end = std::min(line.find_first_of(" \t="), line.size());
  split.keyword = Lower(line.substr(0, end));
  std::string_view rest = Trimmed(line.substr(end), kConfigBlanks);
  if (rest.starts_with('=')) rest = Trimmed(rest.substr(1), kConfigBlanks);
  split.rest = rest;
  split.words = SplitWords(rest);
  return split;
}

bool MatchesHost(const std::vector<std::string>& patterns, std::string_view host) {
  bool is_match = false;
  for (const std::string_view pattern : patterns) {
    const bool is_negated = pattern.starts_with('!');
    if (!MatchesPattern(is_negated ? pattern.substr(1) : pattern, host)) continue;
    if (is_negated) return false;
    is_match = true;
  }
  return is_match;
}

bool IsYes(std::string_view value) { return Lower(value) == "yes" || Lower(value) == "true"; }
bool IsNo(std::string_view value) { return Lower(value) == "no" || Lower(value) == "false"; }

/// The first value of each keyword, and the token values of one host.
class Lookup {
 public:
  Lookup(const std::vector<SshConfigLine>& lines, const SshUser& user) : lines_(lines) {
    for (const SshConfigLine& line : lines) first_.emplace(line.keyword, &line);
    tokens_ = {{'%', "%"}, {'d', user.home}, {'u', user.name}};
    home_ = user.home;
  }

  std::string Word(const std::string& keyword, std::string_view fallback = {}) const {
    const auto found = first_.find(keyword);
    return std::string(found == first_.end() ? fallback : found->second->words[0]);
  }
  const SshConfigLine* Line(const std::string& keyword) const {
    const auto found = first_.find(keyword);
    return found == first_.end() ? nullptr : found->second;
  }
  /// All values of a keyword that accumulates.
  std::vector<std::string> All(const std::string& keyword) const {
    std::vector<std::string> values;
    for (const SshConfigLine& line : lines_) {
      if (line.keyword == keyword && !IsNone(line.words[0])) values.push_back(line.words[0]);
    }
    return values;
  }
  void SetToken(char token, std::string value) { tokens_[token] = std::move(value); }

  std::string Expand(std::string_view text) const {
    std::string out;
    if (text == "~" || text.starts_with("~/")) {
      out = home_;
      text.remove_prefix(1);
    }
    for (size_t i = 0; i < text.size(); ++i) {
      const auto token =
          text[i] == '%' && i + 1 < text.size() ? tokens_.find(text[i + 1]) : tokens_.end();
      if (token == tokens_.end()) {
        out.push_back(text[i]);
      } else {
        out += token->second;
        ++i;
      }
    }
    return out;
  }
  std::vector<std::string> ExpandAll(std::vector<std::string> values) const {
    for (std::string& value : values) value = Expand(value);
    std::erase_if(values, [](const std::string& value) { return IsNone(value); });
    return values;
  }

  static bool IsNone(std::string_view value) { return value.empty() || Lower(value) == "none"; }

 private:
  const std::vector<SshConfigLine>& lines_;
  std::map<std::string, const SshConfigLine*> first_;
  std::map<char, std::string> tokens_;
  std::string home_;
};

Status TakeNumber(const Lookup& lookup, const std::string& keyword, int max, int& value) {
  const std::string text = lookup.Word(keyword);
  if (Lookup::IsNone(text)) return {};
  const auto number = ParseInteger<int>(text);
  if (number && *number >= 1 && *number <= max) {
    value = *number;
    return {};
  }
  return {ErrorCode::kSpecInvalid, fmt::format("SSH configuration: {} '{}' is not within 1 to {}",
                                               keyword, ShownText(text), max)};
}

std::vector<std::string> SplitAtCommas(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) items.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

/// The names of `ours` that an option's list allows, in our order. "+" and "^" only extend or sort
/// OpenSSH's own list; "-" removes names. Source: ssh_config(5), Ciphers.
std::string AllowedOf(std::string_view ours, std::string_view option) {
  if (option.empty() || option[0] == '+' || option[0] == '^') return std::string(ours);
  const bool is_removing = option[0] == '-';
  if (is_removing) option.remove_prefix(1);
  const std::vector<std::string> patterns = SplitAtCommas(option);
  std::string allowed;
  for (const std::string& name : SplitAtCommas(ours)) {
    const bool is_named =
        std::any_of(patterns.begin(), patterns.end(),
                    [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
    if (is_named != is_removing) allowed += (allowed.empty() ? "" : ",") + name;
  }
  return allowed;
}

/// An option that makes an SSH connection safer or redirects it, and that libssh2 1.10 does not
/// support. All options: docs/ssh.md, "Which SSH options count".
struct OpensshOnly {
  const char* keyword;
  std::vector<std::string_view> without_effect;  ///< Harmless values besides "none".
};

const std::vector<OpensshOnly>& OpensshOnlyOptions() {
  static const std::vector<OpensshOnly> options = {
      {"proxyjump", {}},
      {"proxycommand", {}},
      {"certificatefile", {}},
      {"pkcs11provider", {}},
      {"bindaddress", {}},
      {"bindinterface", {}},
      {"addressfamily", {"any"}},
      {"revokedhostkeys", {}},
      {"knownhostscommand", {}},
      {"verifyhostkeydns", {"no", "false"}},
      {"rekeylimit", {"0 0", "0", "default", "default none"}},
      {"refuseconnection", {}},
  };
  return options;
}

/// The first option that libssh2 1.10 does not support; empty: the configuration has none.
std::string NeedOfOpenSsh(const Lookup& lookup) {
  for (const auto& [keyword, without_effect] : OpensshOnlyOptions()) {
    const SshConfigLine* line = lookup.Line(keyword);
    if (line == nullptr || Lookup::IsNone(Lower(line->rest))) continue;
    if (std::find(without_effect.begin(), without_effect.end(), Lower(line->rest)) !=
        without_effect.end()) {
      continue;
    }
    return fmt::format("the SSH configuration sets {} {}", keyword, ShownText(line->rest));
  }
  const std::string keys = lookup.Word("pubkeyauthentication", "yes");
  if (Lower(keys) == "host-bound") {
    return "the SSH configuration sets pubkeyauthentication host-bound";
  }
  if (IsNo(keys) && IsYes(lookup.Word("gssapiauthentication"))) {
    return "the SSH configuration allows GSSAPI but no keys";
  }
  for (const char* keyword : {"pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes"}) {
    const std::string ours = SshAlgorithms().host_keys;  // users sign with the same ones
    if (AllowedOf(ours, lookup.Word(keyword)) == ours) continue;
    return fmt::format("the SSH configuration restricts {}", keyword);
  }
  return {};
}

/// Reduces the algorithms that the library offers to those that the configuration allows.
void TakeAlgorithms(const Lookup& lookup, SshSettings& settings) {
  const auto take = [&](const char* keyword, std::string& names) {
    names = AllowedOf(names, lookup.Word(keyword));
    if (!names.empty() || !settings.needs_openssh.empty()) return;
    settings.needs_openssh =
        fmt::format("the SSH configuration allows none of libssh2's {}", keyword);
  };
  take("kexalgorithms", settings.algorithms.key_exchanges);
  take("hostkeyalgorithms", settings.algorithms.host_keys);
  take("ciphers", settings.algorithms.ciphers);
  take("macs", settings.algorithms.macs);
}

Status TakeWaysIn(const Lookup& lookup, SshSettings& settings) {
  settings.allows_public_key = !IsNo(lookup.Word("pubkeyauthentication"));
  settings.allows_password = !IsNo(lookup.Word("passwordauthentication"));
  settings.allows_keyboard_interactive =
      !IsNo(lookup.Word("kbdinteractiveauthentication")) &&
      !IsNo(lookup.Word("challengeresponseauthentication"));  // its old name
  settings.allows_questions = !IsYes(lookup.Word("batchmode"));
  // With 0, OpenSSH asks no questions either.
  if (lookup.Word("numberofpasswordprompts") == "0") settings.allows_questions = false;
  if (settings.allows_questions) {
    int most = settings.max_questions;
    HVDRAY_RETURN_IF_ERROR(TakeNumber(lookup, "numberofpasswordprompts", 1 << 30, most));
    settings.max_questions = std::min(settings.max_questions, most);
  }
  const std::string preferred = lookup.Word("preferredauthentications");
  if (preferred.empty()) return {};
  const std::vector<std::string> names = SplitAtCommas(preferred);
  const auto is_named = [&names](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  settings.allows_public_key = settings.allows_public_key && is_named("publickey");
  settings.allows_password = settings.allows_password && is_named("password");
  settings.allows_keyboard_interactive =
      settings.allows_keyboard_interactive && is_named("keyboard-interactive");
  // The library doesn't support the other methods, which may be preferred to passwords.
  const bool has_more = is_named("gssapi-with-mic") || is_named("hostbased");
  const bool has_ours = settings.allows_password || settings.allows_keyboard_interactive;
  if (settings.needs_openssh.empty() && !settings.allows_public_key && (has_more || !has_ours)) {
    settings.needs_openssh = fmt::format("the SSH configuration prefers {}", ShownText(preferred));
  }
  return {};
}

std::vector<std::string> Defaults(std::initializer_list<const char*> values) {
  return {values.begin(), values.end()};
}

void TakeFiles(const Lookup& lookup, const SshOverrides& overrides, const SshUser& user,
               SshSettings& settings) {
  std::vector<std::string> identities = lookup.All("identityfile");
  if (!overrides.identity_file.empty()) {
    std::erase(identities, overrides.identity_file);  // ssh -G got it by -i and repeats it
    identities.insert(identities.begin(), overrides.identity_file);
    settings.has_explicit_identity = true;
  }
  if (identities.empty()) {
    identities = Defaults({"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519"});
  }
  settings.identity_files = lookup.ExpandAll(std::move(identities));
  settings.identities_only = IsYes(lookup.Word("identitiesonly"));

  const std::string agent = lookup.Expand(lookup.Word("identityagent", "SSH_AUTH_SOCK"));
  settings.identity_agent = agent == "SSH_AUTH_SOCK" ? user.agent_socket : agent;
  if (Lookup::IsNone(settings.identity_agent)) settings.identity_agent.clear();

  const auto files = [&](const char* keyword, const std::vector<std::string>& fallback) {
    const SshConfigLine* line = lookup.Line(keyword);
    return lookup.ExpandAll(line == nullptr ? fallback : line->words);
  };
  settings.user_known_hosts_files =
      files("userknownhostsfile", Defaults({"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}));
  settings.global_known_hosts_files = files(
      "globalknownhostsfile", Defaults({"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}));
  settings.hash_known_hosts = IsYes(lookup.Word("hashknownhosts"));
}

}  // namespace

std::vector<SshConfigLine> ParseSshG(std::string_view output) {
  std::vector<SshConfigLine> lines;
  for (const std::string_view line : LinesOf(output)) {
    SshConfigLine split = SplitLine(Trimmed(line, kConfigBlanks));
    if (split.rest.empty()) continue;
    // ssh prints one unquoted path per line, even if it contains blanks.
    if (split.keyword == "identityfile" || split.keyword == "identityagent" ||
        split.keyword == "certificatefile") {
      split.words = {split.rest};
    }
    if (!split.words.empty()) lines.push_back(std::move(split));
  }
  return lines;
}

std::vector<SshConfigLine> ReadSshConfig(std::string_view text, std::string_view host,
                                         std::vector<std::string>& warnings) {
  std::vector<SshConfigLine> lines;
  bool applies = true;
  int number = 0;
  for (std::string_view line : LinesOf(text)) {
    ++number;
    line = Trimmed(line, kConfigBlanks);
    if (line.empty() || line[0] == '#') continue;
    SshConfigLine split = SplitLine(line);
    if (split.words.empty()) continue;
    if (split.keyword == "host") {
      applies = MatchesHost(split.words, host);
    } else if (split.keyword == "match") {
      applies = split.words.size() == 1 && Lower(split.words[0]) == "all";
      if (!applies) {
        warnings.push_back(fmt::format(
            "line {}: Match needs the ssh client; ignoring the lines below it", number));
      }
    } else if (applies && split.keyword == "include") {
      warnings.push_back(fmt::format("line {}: Include needs the ssh client; ignored", number));
    } else if (applies) {
      lines.push_back(std::move(split));
    }
  }
  return lines;
}

Result<SshSettings> SettingsFromLines(const std::vector<SshConfigLine>& lines,
                                      const SshTarget& target, const SshOverrides& overrides,
                                      const SshUser& user) {
  Lookup lookup(lines, user);
  SshSettings settings;
  HVDRAY_RETURN_IF_ERROR(TakeNumber(lookup, "port", 65535, settings.port));
  if (overrides.port != 0) settings.port = overrides.port;
  if (target.port != 0) settings.port = target.port;
  settings.user = target.user.empty() ? lookup.Word("user", user.name) : target.user;
  lookup.SetToken('n', target.host);
  lookup.SetToken('p', fmt::format("{}", settings.port));
  lookup.SetToken('r', settings.user);
  lookup.SetToken('h', target.host);
  settings.host_name = lookup.Expand(lookup.Word("hostname", target.host));
  lookup.SetToken('h', settings.host_name);
  settings.host_key_alias =
      target.host_key_alias.empty() ? lookup.Word("hostkeyalias") : target.host_key_alias;

  TakeFiles(lookup, overrides, user, settings);
  int timeout_s = 0;
  HVDRAY_RETURN_IF_ERROR(TakeNumber(lookup, "connecttimeout", 1 << 30, timeout_s));
  settings.connect_timeout = std::chrono::seconds(timeout_s);
  // "ask" suits a terminal and one host at a time; a job accepts new hosts instead.
  const std::string checking = lookup.Word("stricthostkeychecking", "ask");
  if (checking != "ask") {
    const Result<HostKeyPolicy> policy = ParseHostKeyPolicy(checking);
    if (!policy.ok()) {
      return Status(
          ErrorCode::kSpecInvalid,
          fmt::format("SSH configuration: invalid stricthostkeychecking '{}'", ShownText(checking)),
          policy.status().hint());
    }
    settings.host_key_policy = *policy;
  }
  if (overrides.host_key_policy) settings.host_key_policy = *overrides.host_key_policy;
  settings.checks_address = target.host_key_alias.empty() && IsYes(lookup.Word("checkhostip"));
  settings.needs_openssh = NeedOfOpenSsh(lookup);
  TakeAlgorithms(lookup, settings);
  HVDRAY_RETURN_IF_ERROR(TakeWaysIn(lookup, settings));
  return settings;
}

std::vector<std::string> PlainSessionOptions(const std::vector<SshConfigLine>& lines) {
  struct Row {
    std::string_view keyword;
    std::string_view plain;
    std::string_view option;
  };
  static constexpr Row kRows[] = {
      {"remotecommand", "none", "RemoteCommand=none"},
      {"sessiontype", "default", "SessionType=default"},
      {"stdinnull", "no", "StdinNull=no"},
      {"forkafterauthentication", "no", "ForkAfterAuthentication=no"},
      {"addkeystoagent", "false", "AddKeysToAgent=no"},
      // Why it gives up, which LogLevel=ERROR hides and INFO would show with sshd's banner. OpenSSH
      // before 8.5 does not know it.
      {"logverbose", "*:sshpkt_vfatal():*", "LogVerbose=*:sshpkt_vfatal():*"},
  };
  std::vector<std::string> options;
  for (const Row& row : kRows) {
    const auto line = std::ranges::find(lines, row.keyword, &SshConfigLine::keyword);
    if (line != lines.end() && line->rest != row.plain) options.emplace_back(row.option);
  }
  return options;
}

bool HasForwards(const std::vector<SshConfigLine>& lines) {
  return std::ranges::any_of(lines, [](const SshConfigLine& line) {
    return line.keyword == "localforward" || line.keyword == "remoteforward" ||
           line.keyword == "dynamicforward";
  });
}

std::string Proxy(const std::vector<SshConfigLine>& lines) {
  for (const SshConfigLine& line : lines) {
    if (Lower(line.rest) == "none") continue;
    if (line.keyword == "proxyjump") return "ProxyJump " + ShownText(line.rest);
    if (line.keyword == "proxycommand") return "ProxyCommand " + ShownText(line.rest);
  }
  return {};
}

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // the last '*' seen; star_end: its end in `text`
  size_t star_end = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

constexpr std::string_view kBlanks = " \t";

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Names that ssh uses unchanged: it lowers upper case, and normalises IPv6 addresses.
bool IsPlainHost(std::string_view host) {
  return !host.empty() && host[0] != '-' && std::all_of(host.begin(), host.end(), [](char c) {
    return IsLower(c) || IsDigit(c) || c == '.' || c == '-' || c == '_';
  });
}

/// A word of Host or HostName without quotes, escapes or tokens. '#' may begin a comment, depending
/// on ssh's version; words of a comment only make the classes finer.
bool IsPlainPattern(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) {
    return IsLower(c) || IsUpper(c) || IsDigit(c) ||
           std::string_view("._-:*?!#,").find(c) != std::string_view::npos;
  });
}

/// Whether a token is replaced by something of the host. Unknown tokens count, since newer versions
/// of ssh may know them.
bool HasHostToken(std::string_view value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '%') continue;
    const char token = i + 1 < value.size() ? value[++i] : '\0';
    if (token != 'd' && token != 'u') return true;
  }
  return false;
}

/// Keywords whose values don't affect the settings; LinesForOther() handles those of a proxy.
bool MayHaveTokens(std::string_view keyword) {
  constexpr std::array<std::string_view, 5> kKeywords = {
      "controlpath", "localcommand", "remotecommand", "proxycommand", "proxyjump"};
  return std::find(kKeywords.begin(), kKeywords.end(), keyword) != kKeywords.end();
}

std::string_view TrimFront(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text;
}

bool HasControls(std::string_view line) {
  return std::any_of(line.begin(), line.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; });
}

}  // namespace

std::optional<std::vector<std::string>> FilesReadBySsh(std::string_view verbose) {
  constexpr std::string_view kBefore = "debug1: Reading configuration data ";
  constexpr size_t kWhole = 200;  // ssh truncates longer paths
  std::vector<std::string> files;
  for (std::string_view line : LinesOf(verbose)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with(kBefore)) continue;
    line.remove_prefix(kBefore.size());
    // ssh escapes unprintable characters with a backslash.
    if (line.empty() || line.size() >= kWhole || line.find('\\') != std::string_view::npos) {
      return std::nullopt;
    }
    files.emplace_back(line);
  }
  if (files.empty()) return std::nullopt;
  return files;
}

void SshHostClasses::AddFile(std::string_view text) {
  for (const std::string_view line : LinesOf(text)) {
    is_understood_ = is_understood_ && TakeLine(line);
  }
}

bool SshHostClasses::TakeLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = TrimFront(line);
  if (line.empty() || line[0] == '#') return true;
  if (HasControls(line)) return false;
  const size_t end = std::min(line.find_first_of(" \t="), line.size());
  const std::string keyword = Lower(line.substr(0, end));
  if (keyword.empty() || !std::all_of(keyword.begin(), keyword.end(),
                                      [](char c) { return IsLower(c) || IsDigit(c); })) {
    return false;
  }
  std::string_view value = TrimFront(line.substr(end));
  if (value.starts_with('=')) value = TrimFront(value.substr(1));
  if (keyword.starts_with("canonical")) return false;
  if (HasHostToken(value) && !MayHaveTokens(keyword)) return false;
  const std::vector<std::string_view> words = BlankSeparated(value, kBlanks);
  if (keyword == "match") return words.size() == 1 && Lower(words[0]) == "all";
  if (keyword != "host" && keyword != "hostname") return true;
  for (std::string_view word : words) {
    if (!IsPlainPattern(word)) return false;
    if (word.starts_with('!')) word.remove_prefix(1);
    patterns_.insert(keyword == "hostname" ? Lower(word) : std::string(word));
  }
  return true;
}

std::optional<std::string> SshHostClasses::ClassOf(const SshTarget& target) const {
  if (!is_understood_ || !IsPlainHost(target.host)) return std::nullopt;
  std::string key;
  key.reserve(patterns_.size() + target.user.size() + 8);
  // Compares each pattern, not each line, so the settings below a pattern don't matter.
  for (const std::string& pattern : patterns_) {
    key.push_back(MatchesPattern(pattern, target.host) ? '1' : '0');
  }
  return fmt::format("{} {} {}", key, target.port, target.user);
}

std::optional<std::vector<SshConfigLine>> LinesForOther(std::vector<SshConfigLine> lines,
                                                        const std::string& asked,
                                                        const std::string& other) {
  for (SshConfigLine& line : lines) {
    const bool is_proxy = line.keyword == "proxyjump" || line.keyword == "proxycommand";
    if (is_proxy && Lower(line.rest) != "none") return std::nullopt;
    // A HostName that names one host puts that host into a class of its own.
    const bool is_name = line.keyword == "host" || line.keyword == "hostname";
    if (is_name && line.rest == asked) line = {line.keyword, {other}, other};
  }
  return lines;
}

}  // namespace hvdray
