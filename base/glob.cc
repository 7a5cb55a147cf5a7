// SPDX-License-Identifier: Apache-2.0
#include "base/glob.h"

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

constexpr size_t kMaxSets = 65535;

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
class Glob::Compiler {
 public:
  Compiler(std::string_view glob, GlobStars stars, Glob& out)
      : glob_(glob), stars_(stars), out_(out) {}

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
  void Add(Token token) { out_.tokens_.push_back(token); }
  char At(size_t index) const { return index < glob_.size() ? glob_[index] : '\0'; }

  void CompileStars() {
    const size_t begin = at_;
    while (At(at_) == '*') ++at_;
    const bool is_at_start = begin == 0 || glob_[begin - 1] == '/';
    const bool is_at_end = at_ == glob_.size();
    if (at_ - begin == 1) return Add({Step::kRun});
    if (stars_ == GlobStars::kRsync) return Add({Step::kDeepRun});
    if (!is_at_start) return Add({Step::kRun});
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
    if (out_.sets_.size() >= kMaxSets) return false;
    Add({Step::kSet, 0, static_cast<uint16_t>(out_.sets_.size())});
    out_.sets_.push_back(set);
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
  GlobStars stars_;
  Glob& out_;
  size_t at_ = 0;
};

std::optional<Glob> Glob::Compile(std::string_view text, GlobStars stars) {
  Glob glob;
  if (!Compiler(text, stars, glob).Compile()) return std::nullopt;
  const auto is_byte = [](const Token& token) { return token.step == Step::kByte; };
  const auto& tokens = glob.tokens_;
  glob.literal_bytes_ =
      static_cast<size_t>(std::find_if_not(tokens.begin(), tokens.end(), is_byte) - tokens.begin());
  glob.literal_tail_ = static_cast<size_t>(
      std::find_if_not(tokens.rbegin(), tokens.rend(), is_byte) - tokens.rbegin());
  return glob;
}

// The literal bytes at both ends of a pattern decide most cases cheaply.
bool Glob::IsMatch(std::string_view text) const {
  const size_t count = tokens_.size();
  if (literal_bytes_ > text.size() || literal_tail_ > text.size()) return false;
  for (size_t i = 0; i < literal_bytes_; ++i) {
    if (tokens_[i].byte != text[i]) return false;
  }
  if (literal_bytes_ == count) return text.size() == count;
  for (size_t i = 1; i <= literal_tail_; ++i) {
    if (tokens_[count - i].byte != text[text.size() - i]) return false;
  }
  return RunTokens(text);
}

// Follows all ways through the pattern at once: state i means "the tokens before i have matched".
bool Glob::RunTokens(std::string_view text) const {
  const std::vector<Token>& tokens = tokens_;
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
          if (sets_[token.set][static_cast<unsigned char>(c)]) to = i + 1;
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
