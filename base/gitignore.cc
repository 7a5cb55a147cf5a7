// SPDX-License-Identifier: Apache-2.0
#include "base/gitignore.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hvdray {
namespace {

constexpr size_t kMaxSets = 65535;

// As git: drops trailing spaces, unless a backslash precedes them.
std::string_view WithoutTrailingSpaces(std::string_view line) {
  size_t end = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      i = std::min(i + 1, line.size() - 1);
      end = i + 1;
    } else if (line[i] != ' ') {
      end = i + 1;
    }
  }
  return line.substr(0, end);
}

bool IsAscii(int byte, int from, int to) { return byte >= from && byte <= to; }

// The classes of "[[:name:]]", for ASCII as in the C locale.
bool IsOfClass(std::string_view name, int byte, bool* is_known) {
  const bool is_lower = IsAscii(byte, 'a', 'z');
  const bool is_upper = IsAscii(byte, 'A', 'Z');
  const bool is_digit = IsAscii(byte, '0', '9');
  const bool is_graph = IsAscii(byte, 0x21, 0x7e);
  const bool is_alnum = is_lower || is_upper || is_digit;
  const std::pair<std::string_view, bool> classes[] = {
      {"alnum", is_alnum},
      {"alpha", is_lower || is_upper},
      {"blank", byte == ' ' || byte == '\t'},
      {"cntrl", IsAscii(byte, 0, 0x1f) || byte == 0x7f},
      {"digit", is_digit},
      {"graph", is_graph},
      {"lower", is_lower},
      {"print", is_graph || byte == ' '},
      {"punct", is_graph && !is_alnum},
      {"space", byte == ' ' || IsAscii(byte, '\t', '\r')},
      {"upper", is_upper},
      {"xdigit", is_digit || IsAscii(byte, 'a', 'f') || IsAscii(byte, 'A', 'F')},
  };
  for (const auto& [known, is_member] : classes) {
    if (known == name) return is_member;
  }
  *is_known = false;
  return false;
}

}  // namespace

// Compiles a glob to tokens. Fails on a glob that can match nothing: an unclosed '[', an unknown
// class, a trailing backslash.
class GitignoreFile::Compiler {
 public:
  Compiler(std::string_view glob, Pattern& out) : glob_(glob), out_(out) {}

  bool Compile() {
    while (at_ < glob_.size()) {
      const char c = glob_[at_];
      if (c == '*') {
        CompileStars();
      } else if (c == '?') {
        Add({Step::kAny});
        ++at_;
      } else if (c == '[') {
        if (!CompileSet()) return false;
      } else {
        if (c == '\\') ++at_;
        if (at_ == glob_.size()) return false;
        Add({Step::kByte, glob_[at_]});
        ++at_;
      }
    }
    return true;
  }

 private:
  void Add(Token token) { out_.tokens.push_back(token); }
  char At(size_t index) const { return index < glob_.size() ? glob_[index] : '\0'; }

  void CompileStars() {
    const size_t begin = at_;
    while (At(at_) == '*') ++at_;
    const bool is_at_start = begin == 0 || glob_[begin - 1] == '/';
    const bool is_at_end = at_ == glob_.size();
    if (at_ - begin == 1 || !is_at_start) return Add({Step::kRun});
    if (is_at_end || (At(at_) == '\\' && At(at_ + 1) == '/')) return Add({Step::kDeepRun});
    if (At(at_) != '/') return Add({Step::kRun});
    // "**/" matches zero or more directories.
    Add({Step::kSkip});
    Add({Step::kDirectoryRun});
    ++at_;
  }

  bool CompileSet() {
    std::bitset<256> set;
    ++at_;
    const bool is_negated = At(at_) == '!' || At(at_) == '^';
    if (is_negated) ++at_;
    int before = -1;  // the byte that may start a range; -1: none
    bool is_first = true;
    for (; is_first || At(at_) != ']' || at_ >= glob_.size(); ++at_, is_first = false) {
      if (at_ >= glob_.size()) return false;
      if (!CompileMember(set, before)) return false;
    }
    ++at_;
    if (is_negated) set.flip();
    set.reset('/');
    if (out_.sets.size() >= kMaxSets) return false;
    Add({Step::kSet, 0, static_cast<uint16_t>(out_.sets.size())});
    out_.sets.push_back(set);
    return true;
  }

  // Compiles one member of a set and leaves at_ on its last byte.
  bool CompileMember(std::bitset<256>& set, int& before) {
    const char c = glob_[at_];
    if (c == '-' && before >= 0 && at_ + 1 < glob_.size() && glob_[at_ + 1] != ']') {
      ++at_;
      if (glob_[at_] == '\\' && ++at_ >= glob_.size()) return false;
      for (int b = before; b <= static_cast<unsigned char>(glob_[at_]); ++b) set.set(b);
      before = -1;
      return true;
    }
    if (c == '[' && At(at_ + 1) == ':') {
      const size_t end = glob_.find(']', at_ + 2);
      if (end == std::string_view::npos) return false;
      if (end > at_ + 2 && glob_[end - 1] == ':') {
        before = -1;
        return CompileClass(set, end);
      }
    }
    if (c == '\\' && ++at_ >= glob_.size()) return false;
    before = static_cast<unsigned char>(glob_[at_]);
    set.set(static_cast<size_t>(before));
    return true;
  }

  bool CompileClass(std::bitset<256>& set, size_t end) {
    const std::string_view name = glob_.substr(at_ + 2, end - 1 - (at_ + 2));
    bool is_known = true;
    for (int b = 0; b < 256; ++b) {
      if (IsOfClass(name, b, &is_known)) set.set(static_cast<size_t>(b));
    }
    at_ = end;
    return is_known;
  }

  std::string_view glob_;
  Pattern& out_;
  size_t at_ = 0;
};

GitignoreFile::GitignoreFile(ByteView text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    AddLine(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void GitignoreFile::AddLine(std::string_view line) {
  if (line.starts_with('#')) return;
  line = WithoutTrailingSpaces(line);
  Pattern pattern;
  if (line.starts_with('!')) {
    pattern.is_negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    pattern.is_for_directories = true;
    line.remove_suffix(1);
  }
  pattern.is_anchored = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty() || !Compiler(line, pattern).Compile()) return;
  const auto is_byte = [](const Token& token) { return token.step == Step::kByte; };
  const auto& tokens = pattern.tokens;
  pattern.literal_bytes =
      static_cast<size_t>(std::find_if_not(tokens.begin(), tokens.end(), is_byte) - tokens.begin());
  pattern.literal_tail = static_cast<size_t>(
      std::find_if_not(tokens.rbegin(), tokens.rend(), is_byte) - tokens.rbegin());
  patterns_.push_back(std::move(pattern));
}

IgnoreVerdict GitignoreFile::Match(std::string_view path, bool is_directory) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  for (auto pattern = patterns_.rbegin(); pattern != patterns_.rend(); ++pattern) {
    if (pattern->is_for_directories && !is_directory) continue;
    if (!IsMatch(*pattern, pattern->is_anchored ? path : name)) continue;
    return pattern->is_negated ? IgnoreVerdict::kKept : IgnoreVerdict::kIgnored;
  }
  return IgnoreVerdict::kNone;
}

// The literal bytes at both ends of a pattern decide most cases cheaply.
bool GitignoreFile::IsMatch(const Pattern& pattern, std::string_view text) {
  const size_t count = pattern.tokens.size();
  if (pattern.literal_bytes > text.size() || pattern.literal_tail > text.size()) return false;
  for (size_t i = 0; i < pattern.literal_bytes; ++i) {
    if (pattern.tokens[i].byte != text[i]) return false;
  }
  if (pattern.literal_bytes == count) return text.size() == count;
  for (size_t i = 1; i <= pattern.literal_tail; ++i) {
    if (pattern.tokens[count - i].byte != text[text.size() - i]) return false;
  }
  return RunTokens(pattern, text);
}

// Follows all ways through the pattern at once: state i means "the tokens before i have matched".
bool GitignoreFile::RunTokens(const Pattern& pattern, std::string_view text) {
  const std::vector<Token>& tokens = pattern.tokens;
  std::vector<char> now(tokens.size() + 1, 0);
  std::vector<char> next(tokens.size() + 1, 0);
  const auto enter = [&tokens](std::vector<char>& states, size_t state) {
    // A step that may match nothing enters the next one too; kSkip also enters the one after that.
    for (bool may_go_on = true; may_go_on; ++state) {
      states[state] = 1;
      if (state == tokens.size()) return;
      const Step step = tokens[state].step;
      if (step == Step::kSkip) states[++state] = 1;
      may_go_on = step == Step::kRun || step == Step::kDeepRun || step == Step::kSkip;
    }
  };
  enter(now, 0);
  for (const char c : text) {
    std::fill(next.begin(), next.end(), 0);
    bool is_any = false;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (now[i] == 0) continue;
      const Token& token = tokens[i];
      std::optional<size_t> to;
      switch (token.step) {
        case Step::kByte:
          if (c == token.byte) to = i + 1;
          break;
        case Step::kAny:
          if (c != '/') to = i + 1;
          break;
        case Step::kSet:
          if (pattern.sets[token.set][static_cast<unsigned char>(c)]) to = i + 1;
          break;
        case Step::kRun:
          if (c != '/') to = i;
          break;
        case Step::kDeepRun:
          to = i;
          break;
        case Step::kSkip:
          break;
        case Step::kDirectoryRun:
          next[i] = 1;
          is_any = true;
          if (c == '/') to = i + 1;
          break;
      }
      if (!to) continue;
      enter(next, *to);
      is_any = true;
    }
    if (!is_any) return false;
    now.swap(next);
  }
  return now[tokens.size()] != 0;
}

}  // namespace hvdray
