// SPDX-License-Identifier: Apache-2.0
// Reads configuration files only as far as needed to find what tells hosts apart.
#include "cluster/ssh/ssh_host_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cluster/ssh/ssh_config.h"

namespace hvdray {
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

std::string_view NextLine(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
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
  while (!verbose.empty()) {
    std::string_view line = NextLine(verbose);
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
  while (is_understood_ && !text.empty()) is_understood_ = TakeLine(NextLine(text));
}

bool SshHostClasses::TakeLine(std::string_view line) {
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
