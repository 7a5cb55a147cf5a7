// SPDX-License-Identifier: Apache-2.0
// Text is cleaned, then yaml-cpp's events build the tree, then readers ask its nodes for values.
#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/text.h"

namespace hvdray {

/// What a YamlNode points to.
struct YamlNode::Data {
  struct Place {
    int line = 1;
    int column = 1;  ///< In bytes.
  };

  Kind kind = Kind::kNull;
  bool is_quoted = false;
  bool is_tilde = false;  ///< A null that was written as ~.
  Place place;
  int height = 1;     ///< Levels from here down; a scalar has 1.
  size_t weight = 1;  ///< Nodes of the expanded subtree, and one more per 64 bytes of its text.
  std::shared_ptr<const std::string> file;
  std::string text;
  std::vector<YamlNode> items;
  std::vector<Entry> entries;
};

namespace {

constexpr int kMaxDepth = 64;
/// Of all nodes with aliases expanded: readers walk the expanded tree.
constexpr size_t kMaxWeight = 250'000;
constexpr size_t kBytesPerWeight = 64;

using Place = YamlNode::Data::Place;

/// "job.yaml:7:3".
std::string ToText(const std::string& file, Place place) {
  return fmt::format("{}:{}:{}", file, place.line, place.column);
}

Status Refused(const std::string& file, Place place, std::string_view what, std::string hint = {}) {
  return {ErrorCode::kSpecInvalid, fmt::format("{}: {}", ToText(file, place), what),
          std::move(hint)};
}

/// The code point of a character that YAML 1.1 takes for a line break and YAML 1.2 for text, or
/// that PyYAML refuses; 0 for others.
unsigned OddCharacter(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2 && byte(0) == 0xC2 && byte(1) < 0xA0) return byte(1);
  if (character.size() != 3) return 0;
  const unsigned point = (byte(0) & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  return point == 0x2028 || point == 0x2029 || point >= 0xFFFE ? point : 0;
}

/// The text with one '\n' a line break and no byte-order mark. Refuses what YAML does not allow in
/// a stream: the library would stop reading at the first 0x04, and takes NULs as text.
Result<std::string> CleanText(std::string_view text, const std::string& file) {
  if (text.size() > kMaxYamlBytes) {
    return Refused(file, Place{},
                   fmt::format("{} bytes, at most {} allowed", text.size(), kMaxYamlBytes));
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return Refused(file, Place{}, "UTF-16 text", "save the file as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::string clean;
  clean.reserve(text.size());
  Place place;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return Refused(file, place, "not UTF-8 text", "save the file as UTF-8");
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == '\r' && text.substr(1).starts_with('\n')) text.remove_prefix(1);
    if (c == '\n' || c == '\r') {
      clean += '\n';
      text.remove_prefix(1);
      ++place.line;
      place.column = 1;
      continue;
    }
    if ((c < 0x20 && c != '\t') || c == 0x7F) {
      return Refused(file, place, fmt::format("control character 0x{:02x}", c),
                     "is this a text file?");
    }
    if (const unsigned point = OddCharacter(text.substr(0, length)); point != 0) {
      return Refused(file, place,
                     fmt::format("U+{:04X}, which not all readers of YAML take for text", point),
                     fmt::format("remove it, or write \\u{:04x} within double quotes", point));
    }
    clean.append(text.substr(0, length));
    text.remove_prefix(length);
    place.column += static_cast<int>(length);
  }
  return clean;
}

/// The library makes one byte of the escapes \N and \_ (U+0085, U+00A0), which is no UTF-8.
std::string WithWholeCharacters(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) whole += '\xC2';
    whole += text.substr(0, std::max<size_t>(1, length));
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return whole;
}

/// The library loses a line break at the end of most `>+` blocks. `source`: from the header on.
std::string WithKeptBreaks(std::string value, std::string_view source) {
  const std::string_view header = source.substr(0, source.find('\n'));
  const size_t first = std::min(value.find_first_not_of('\n'), value.size());
  const size_t text_at = std::min(value.find_first_not_of(' ', first), value.size());
  const bool is_kept = header.starts_with('>') && header.substr(1, 2).find('+') != header.npos;
  const bool has_text = text_at < value.size() && value[text_at] != '\n';
  if (!is_kept || !has_text || header.size() == source.size()) return value;
  std::optional<size_t> indent;
  std::string breaks;
  for (source.remove_prefix(header.size() + 1); !source.empty();) {
    const std::string_view line = source.substr(0, source.find('\n'));
    const bool has_break = line.size() < source.size();
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const bool is_text = blanks < line.size();
    if (is_text && !indent) indent = blanks - std::min(blanks, text_at - first);
    if (is_text && (blanks < *indent || line.starts_with("---") || line.starts_with("..."))) break;
    if (is_text || (indent && blanks > *indent)) breaks.clear();
    if (has_break) breaks += '\n';
    source.remove_prefix(line.size() + (has_break ? 1 : 0));
  }
  return value.substr(0, value.find_last_not_of('\n') + 1) + breaks;
}

bool IsSameValue(const YamlNode& a, const YamlNode& b) {
  if (&a.text() == &b.text()) return true;  // an alias
  if (a.kind() != b.kind() || a.text() != b.text() || TypeScalar(a) != TypeScalar(b)) return false;
  const auto is_same_entry = [](const YamlNode::Entry& one, const YamlNode::Entry& other) {
    return one.key == other.key && IsSameValue(one.value, other.value);
  };
  return std::ranges::equal(a.items(), b.items(), IsSameValue) &&
         std::ranges::equal(a.entries(), b.entries(), is_same_entry);
}

/// The tag that says no more than the text does.
std::string_view ScalarTag(std::string_view text) {
  const PythonValue value = TypePlainScalar(text);
  if (std::holds_alternative<bool>(value)) return "bool";
  if (std::holds_alternative<int64_t>(value)) return "int";
  return std::holds_alternative<double>(value) ? "float" : "str";
}

/// Thrown from event callbacks through the library, caught in ParseYaml.
struct Refusal {
  Status status;
};

Place ToPlace(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

/// Builds the checked tree from the library's events. Throws a Refusal at the first fault.
class TreeBuilder : public YAML::EventHandler {
 public:
  /// `text`: what is being parsed; must outlive the parse, as `warnings` must, which may be null.
  TreeBuilder(std::string_view text, std::shared_ptr<const std::string> file,
              std::vector<std::string>* warnings)
      : text_(text), file_(std::move(file)), warnings_(warnings) {}

  /// A null node for a file without a document.
  YamlNode Root() {
    if (!root_) root_ = NewData(YamlNode::Kind::kNull, Place{});
    return YamlNode(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) {
      Refuse(ToPlace(mark), "a second document starts here",
             "write one document per file; if there is no '---' here, check the indentation above");
    }
    has_document_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place place = ToPlace(mark);
    // A missing value carries the mark of whatever comes next.
    const bool is_value = !frames_.empty() && frames_.back().has_key;
    if (is_value && frames_.back().key_place.line != place.line) place = frames_.back().key_place;
    auto data = NewData(YamlNode::Kind::kNull, place);
    data->is_tilde = SourceOf(mark).starts_with('~');
    NoteAnchor(mark, anchor);
    Accept(std::move(data), anchor, place);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Place place = ToPlace(mark);
    auto data = NewData(YamlNode::Kind::kScalar, place);
    const std::string_view source = SourceOf(mark);
    data->text = WithKeptBreaks(IsUtf8(value) ? value : WithWholeCharacters(value), source);
    data->weight += value.size() / kBytesPerWeight;
    data->is_quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    ApplyTag(tag, *data);
    if (!IsClosed(source)) Refuse(place, "this quote is never closed");
    if (IsKeyNext() && frames_.back().is_block) CheckColon(mark, source, value);
    NoteAnchor(mark, anchor);
    Accept(std::move(data), anchor, place);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Place place = ToPlace(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(place, "this alias refers to the value that contains it");
    if (static_cast<int>(frames_.size()) + found->second->height > kMaxDepth) RefuseDepth(place);
    PutShared(found->second, place);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
    frames_.back().is_block = style == YAML::EmitterStyle::Block;
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  using DataPtr = std::shared_ptr<YamlNode::Data>;
  using ConstDataPtr = std::shared_ptr<const YamlNode::Data>;

  /// A key of an open map.
  struct Seen {
    std::string where;
    size_t index = 0;  ///< Among the map's entries.
  };

  /// A list or map that is still open.
  struct Frame {
    DataPtr data;
    YAML::anchor_t anchor = 0;
    bool is_block = false;
    bool has_key = false;  ///< The next node is the value of `key`.
    std::string key;
    bool is_merge = false;
    bool is_repeated = false;  ///< `key` has a value already.
    Place key_place;
    std::unordered_map<std::string, Seen> seen;
    std::vector<YamlNode> merged;  ///< Maps to merge; the first that has a key wins.
    size_t merge_at = 0;
  };

  [[noreturn]] void Refuse(Place place, std::string_view what, std::string hint = {}) const {
    throw Refusal{Refused(*file_, place, what, std::move(hint))};
  }
  [[noreturn]] void RefuseDepth(Place place) const {
    Refuse(place, fmt::format("nested more than {} deep", kMaxDepth));
  }

  DataPtr NewData(YamlNode::Kind kind, Place place) const {
    auto data = std::make_shared<YamlNode::Data>();
    data->kind = kind;
    data->place = place;
    data->file = file_;
    return data;
  }

  /// The text from a value on, after its tag and its anchor, of which it gives the name.
  std::string_view SourceOf(const YAML::Mark& mark, std::string_view* anchor = nullptr) const {
    std::string_view rest = text_.substr(std::min(text_.size(), static_cast<size_t>(mark.pos)));
    while (rest.starts_with('&') || rest.starts_with('!')) {
      const bool is_anchor = rest.starts_with('&');
      const std::string_view word =
          rest.substr(0, rest.find_first_of(is_anchor ? " \n\t,]}" : " \n\t"));
      if (anchor != nullptr && is_anchor) *anchor = word.substr(1);
      rest.remove_prefix(word.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" \n\t"), rest.size()));
    }
    return rest;
  }

  /// The library takes a line without a colon for a key without a value.
  void CheckColon(const YAML::Mark& mark, std::string_view source, std::string_view key) const {
    const std::string_view before = text_.substr(0, static_cast<size_t>(mark.pos));
    const std::string_view line = before.substr(before.rfind('\n') + 1);
    if (key.empty() || !source.starts_with(key) || line.find('?') != std::string_view::npos) return;
    source.remove_prefix(key.size());
    const size_t next = source.find_first_not_of(" \n\t");
    if (next != std::string_view::npos && source[next] == ':') return;
    Refuse(ToPlace(mark), fmt::format("there is no ': ' after {}", ShownText(key)),
           "write KEY: VALUE, with a blank after the colon");
  }

  /// Two values of one anchor are fine to YAML, and an error to PyYAML.
  void NoteAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0 || warnings_ == nullptr) return;
    std::string_view name;
    (void)SourceOf(mark, &name);
    const std::string where = ToText(*file_, ToPlace(mark));
    const auto [first, is_new] = anchor_places_.emplace(name, where);
    if (is_new) return;
    warnings_->push_back(fmt::format(
        "{}: anchor {} is defined again, first at {}: from here on the last one counts; "
        "Ray refuses such a file",
        where, ShownText(name), first->second));
  }

  /// The library lets the end of the file end a quoted scalar.
  static bool IsClosed(std::string_view rest) {
    if (!rest.starts_with('\'') && !rest.starts_with('"')) return true;
    const char quote = rest[0];
    for (size_t i = 1; i < rest.size(); ++i) {
      const bool is_escape = quote == '"' ? rest[i] == '\\' : rest.substr(i).starts_with("''");
      if (is_escape) {
        ++i;
      } else if (rest[i] == quote) {
        return true;
      }
    }
    return false;
  }

  /// Gives the scalar the type that its tag says.
  void ApplyTag(std::string_view tag, YamlNode::Data& scalar) const {
    const PythonValue value = TypePlainScalar(scalar.text);
    const auto* whole = std::get_if<int64_t>(&value);
    std::optional<double> number = ParseDouble(scalar.text);
    if (!number && whole != nullptr) number = static_cast<double>(*whole);
    if (tag == "tag:yaml.org,2002:null") {
      scalar.kind = YamlNode::Kind::kNull;
      scalar.text.clear();
    } else if (tag == "tag:yaml.org,2002:float" && number) {
      scalar.text = FloatText(*number);
    } else if (tag != "tag:yaml.org,2002:merge" || scalar.text != "<<") {
      CheckTag(tag, ScalarTag(scalar.text), scalar.place);
    }
  }

  /// `own`: what the value is anyway. Another tag makes something else of it, such as the bytes of
  /// `!!binary`.
  void CheckTag(std::string_view tag, std::string_view own, Place place) const {
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    if (tag.empty() || tag == "?" || tag == "!") return;
    const std::string_view name = tag.starts_with(kCore) ? tag.substr(kCore.size()) : "";
    if (name == own || (name == "str" && own != "map" && own != "seq")) return;
    const std::string shown = name.empty() ? std::string(tag) : fmt::format("!!{}", name);
    const bool is_core = name == "int" || name == "float" || name == "bool" || name == "str";
    Refuse(place,
           fmt::format("the tag {} {}", ShownText(shown),
                       is_core ? "does not fit its value" : "is not supported"),
           "remove it");
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    const Place place = ToPlace(mark);
    NoteAnchor(mark, anchor);
    CheckTag(tag, kind == YamlNode::Kind::kMap ? "map" : "seq", place);
    if (static_cast<int>(frames_.size()) >= kMaxDepth) RefuseDepth(place);
    if (IsKeyNext()) Refuse(place, "a key must be a scalar");
    Frame frame;
    frame.data = NewData(kind, place);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (!frame.merged.empty()) Merge(frame);
    const Place place = frame.data->place;
    Accept(std::move(frame.data), frame.anchor, place);
  }

  bool IsKeyNext() const {
    return !frames_.empty() && frames_.back().data->kind == YamlNode::Kind::kMap &&
           !frames_.back().has_key;
  }

  void Accept(DataPtr data, YAML::anchor_t anchor, Place place) {
    if (anchor != 0) anchors_[anchor] = data;
    // Its children have been charged already.
    const bool is_leaf = data->items.empty() && data->entries.empty();
    Charge(is_leaf ? data->weight : 1, place);
    Put(std::move(data), place);
  }

  void PutShared(ConstDataPtr data, Place place) {
    Charge(data->weight, place);
    Put(std::move(data), place);
  }

  void Charge(size_t weight, Place place) {
    total_weight_ += weight;
    if (total_weight_ > kMaxWeight) {
      Refuse(place, fmt::format("more than {} values with aliases expanded", kMaxWeight));
    }
  }

  void Put(ConstDataPtr data, Place place) {
    if (frames_.empty()) {
      root_ = std::move(data);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.data->kind == YamlNode::Kind::kSequence) {
      Grow(*frame.data, *data);
      frame.data->items.emplace_back(std::move(data));
    } else if (!frame.has_key) {
      PutKey(frame, *data, place);
    } else {
      PutValue(frame, std::move(data), place);
    }
  }

  static void Grow(YamlNode::Data& parent, const YamlNode::Data& child) {
    parent.weight += child.weight;
    parent.height = std::max(parent.height, child.height + 1);
  }

  void PutKey(Frame& frame, const YamlNode::Data& key, Place place) {
    if (key.kind == YamlNode::Kind::kNull) {
      Refuse(place, "a key is missing", "quote it if the key is the word null or ~");
    }
    if (key.kind != YamlNode::Kind::kScalar) Refuse(place, "a key must be a scalar");
    const Seen here{ToText(*file_, place), frame.data->entries.size()};
    const auto [first, is_new] = frame.seen.emplace(key.text, here);
    frame.is_merge = key.text == "<<" && !key.is_quoted;
    if (!is_new) {
      const std::string what =
          fmt::format("duplicate key {}, first at {}", ShownText(key.text), first->second.where);
      if (warnings_ == nullptr) {
        Refuse(place, what, frame.is_merge ? "list both: <<: [*a, *b]" : "remove one of the two");
      }
      warnings_->push_back(
          fmt::format("{}: {}: {}the last value counts", here.where, what,
                      frame.is_merge ? "both are merged; where they disagree, " : ""));
    }
    frame.data->weight += key.weight;
    frame.has_key = true;
    frame.key = key.text;
    frame.is_repeated = !is_new;
    frame.key_place = place;
  }

  void PutValue(Frame& frame, ConstDataPtr data, Place place) {
    frame.has_key = false;
    Grow(*frame.data, *data);
    if (frame.is_merge) {
      CheckMerge(*data, place);
      if (frame.merged.empty()) frame.merge_at = frame.data->entries.size();
      std::vector<YamlNode> sources{YamlNode(data)};
      if (data->kind == YamlNode::Kind::kSequence) sources = data->items;
      frame.merged.insert(frame.merged.begin(), sources.begin(), sources.end());
      return;
    }
    const std::string where = ToText(*file_, frame.key_place);
    YamlNode::Entry entry{std::move(frame.key), where, YamlNode(std::move(data))};
    std::vector<YamlNode::Entry>& entries = frame.data->entries;
    const size_t first = frame.is_repeated ? frame.seen[entry.key].index : entries.size();
    // Not so where a << came first and '<<' now.
    const bool has_value = first < entries.size() && entries[first].key == entry.key;
    if (has_value) {
      entries[first] = std::move(entry);
    } else {
      entries.push_back(std::move(entry));
    }
  }

  void CheckMerge(const YamlNode::Data& data, Place place) const {
    bool is_fine = data.kind == YamlNode::Kind::kMap;
    if (data.kind == YamlNode::Kind::kSequence) {
      is_fine = std::all_of(data.items.begin(), data.items.end(), [](const YamlNode& item) {
        return item.kind() == YamlNode::Kind::kMap;
      });
    }
    if (!is_fine) Refuse(place, "<< takes a map or a list of maps");
  }

  /// The map's own keys win, then those of the first merged map.
  void Merge(Frame& frame) {
    std::vector<YamlNode::Entry> merged;
    std::unordered_map<std::string, size_t> taken;
    for (const YamlNode& source : frame.merged) {
      for (const YamlNode::Entry& entry : source.entries()) {
        if (frame.seen.contains(entry.key)) continue;
        const auto [first, is_new] = taken.emplace(entry.key, merged.size());
        if (is_new) {
          merged.push_back(entry);
        } else {
          WarnOfDisagreement(*frame.data, merged[first->second], entry);
        }
      }
    }
    auto& entries = frame.data->entries;
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(frame.merge_at), merged.begin(),
                   merged.end());
  }

  /// PyYAML 6.0.4 takes the last one, against the rule of YAML's merge keys; 6.0.3 the first.
  void WarnOfDisagreement(const YamlNode::Data& map, const YamlNode::Entry& taken,
                          const YamlNode::Entry& other) const {
    if (warnings_ == nullptr || IsSameValue(taken.value, other.value)) return;
    warnings_->push_back(
        fmt::format("{}: merged mappings disagree on {}: {} counts, not {}; some versions of Ray's "
                    "YAML library take the other one",
                    ToText(*file_, map.place), ShownText(taken.key), taken.where, other.where));
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  std::vector<std::string>* warnings_;
  bool has_document_ = false;
  size_t total_weight_ = 0;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, ConstDataPtr> anchors_;
  std::unordered_map<std::string, std::string> anchor_places_;  ///< By name, with `warnings`.
  ConstDataPtr root_;
};

/// The line, from 1, without its break.
std::string_view LineAt(std::string_view text, int line) {
  for (int i = 1; i < line && !text.empty(); ++i) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool IsTabIndented(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  return first != std::string_view::npos && line[first] == '\t';
}

/// "- &a |": the library wants the lines of such a block further right than it should.
bool OpensNamedBlock(std::string_view line) {
  const size_t at = std::min(line.find("- &"), line.find("- !"));
  return at != std::string_view::npos && line.find_first_of("|>", at) != std::string_view::npos;
}

std::string SyntaxHint(std::string_view text, Place place, std::string_view what) {
  if (what.find("tab") != std::string_view::npos || IsTabIndented(LineAt(text, place.line))) {
    return "indent with spaces, not tabs";
  }
  if (what == "illegal map value")
    return "quote a value that contains ': ', and check the indentation";
  if (what.find("not found") != std::string_view::npos) {
    return OpensNamedBlock(LineAt(text, place.line - 1))
               ? "indent the block further than its anchor or tag"
               : "check indentation and brackets";
  }
  if (what.find("anchor") != std::string_view::npos)
    return "an anchor comes before its aliases; quote text that starts with *";
  if (what == "unknown token") return "quote a value that starts with @, ` or %";
  return {};
}

bool IsInteger(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return IsAllDigits(text);
}

/// 010 is eight in YAML 1.1 and ten in YAML 1.2.
bool HasLeadingZero(std::string_view text) {
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789_") == text.npos;
}

/// Refuses a number that readers of YAML 1.1 and 1.2 take differently: 010, 1:30.
Status CheckOneMeaning(const YamlNode& node, std::string_view name) {
  if (HasLeadingZero(node.text())) {
    return node.Error(fmt::format("{} has a leading zero ({})", name, ShownText(node.text())),
                      "drop the zero: some programs read such numbers as octal");
  }
  if (node.text().find(':') == std::string::npos) return {};
  const PythonValue value = TypeScalar(node);
  const int64_t* whole = std::get_if<int64_t>(&value);
  return node.Error(
      fmt::format("{} is a number in base 60 ({})", name, ShownText(node.text())),
      whole != nullptr ? fmt::format("if that is what you mean, write {}", *whole) : "");
}

/// "a string ("four")": what the value is, for "np is …, not an integer".
std::string Describe(const YamlNode& node) {
  switch (node.kind()) {
    case YamlNode::Kind::kNull:
      return "empty";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  const std::string shown = ShownText(node.text());
  if (node.is_quoted()) return fmt::format("a quoted string (\"{}\")", shown);
  const PythonValue value = TypePlainScalar(node.text());
  if (std::holds_alternative<bool>(value)) return fmt::format("true or false ({})", shown);
  if (!std::holds_alternative<std::string>(value) || ParseDouble(node.text())) {
    return fmt::format("a number ({})", shown);
  }
  return fmt::format("a string (\"{}\")", shown);
}

Status WrongKind(const YamlNode& node, std::string_view name, std::string_view wanted,
                 std::string hint = {}) {
  return node.Error(fmt::format("{} is {}, not {}", name, Describe(node), wanted), std::move(hint));
}

bool IsPlainScalar(const YamlNode& node) {
  return node.kind() == YamlNode::Kind::kScalar && !node.is_quoted();
}

std::string UnquoteHint(const YamlNode& node) {
  return node.is_quoted() ? "write it without quotes" : "";
}

}  // namespace

PythonValue TypeScalar(const YamlNode& node) {
  if (node.kind() != YamlNode::Kind::kScalar) return std::monostate();
  if (node.is_quoted()) return node.text();
  return TypePlainScalar(node.text());
}

Status CheckIntegers(const YamlNode& node) {
  for (const YamlNode& item : node.items()) HVDRAY_RETURN_IF_ERROR(CheckIntegers(item));
  for (const YamlNode::Entry& entry : node.entries()) {
    HVDRAY_RETURN_IF_ERROR(CheckIntegers(entry.value));
  }
  // Untyped, though it looks like one.
  const std::string& text = node.text();
  const bool is_text = std::holds_alternative<std::string>(TypeScalar(node)) && !node.is_quoted();
  const bool is_hex = text.starts_with("0x") && text.size() > 2 &&
                      text.find_first_not_of("0123456789abcdefABCDEF_", 2) == text.npos;
  const bool is_huge = is_hex || (IsInteger(text) && !HasLeadingZero(text));
  if (!is_text || !is_huge) return {};
  return node.Error(fmt::format("the integer {} has more than 64 bits", ShownText(text)),
                    "write it in quotes if it is text");
}

YamlNode::Kind YamlNode::kind() const { return data_->kind; }

std::string YamlNode::Where() const { return ToText(*data_->file, data_->place); }

const std::string& YamlNode::text() const { return data_->text; }

bool YamlNode::is_quoted() const { return data_->is_quoted; }

const std::vector<YamlNode>& YamlNode::items() const { return data_->items; }

const std::vector<YamlNode::Entry>& YamlNode::entries() const { return data_->entries; }

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const Entry& entry : data_->entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Result<int64_t> YamlNode::AsInt(std::string_view name, int64_t min, int64_t max) const {
  const PythonValue typed = TypeScalar(*this);
  const int64_t* value = std::get_if<int64_t>(&typed);
  const bool is_integer = IsPlainScalar(*this) && IsInteger(text());
  if (value == nullptr && !is_integer) {
    return WrongKind(*this, name, "an integer", UnquoteHint(*this));
  }
  HVDRAY_RETURN_IF_ERROR(CheckOneMeaning(*this, name));
  if (value == nullptr || *value < min || *value > max) {
    return Error(fmt::format("{} is {}, not within {} to {}", name, ShownText(text()), min, max));
  }
  return *value;
}

Result<double> YamlNode::AsDouble(std::string_view name) const {
  const PythonValue typed = TypeScalar(*this);
  std::optional<double> value;
  if (const int64_t* whole = std::get_if<int64_t>(&typed)) value = static_cast<double>(*whole);
  if (const double* number = std::get_if<double>(&typed)) value = *number;
  // 1e3 is a number in YAML 1.2 alone.
  if (!value && IsPlainScalar(*this)) value = ParseDouble(text());
  if (!value || !std::isfinite(*value)) {
    return WrongKind(*this, name, "a number", UnquoteHint(*this));
  }
  HVDRAY_RETURN_IF_ERROR(CheckOneMeaning(*this, name));
  return *value;
}

Result<bool> YamlNode::AsBool(std::string_view name) const {
  const PythonValue typed = TypeScalar(*this);
  const bool* value = std::get_if<bool>(&typed);
  if (value == nullptr) return WrongKind(*this, name, "true or false", UnquoteHint(*this));
  return *value;
}

Result<std::string> YamlNode::AsString(std::string_view name) const {
  if (kind() == Kind::kNull) {
    return WrongKind(
        *this, name, "a string",
        data_->is_tilde ? TildeHint() : "write \"\" for an empty string, or \"null\" for the word");
  }
  if (kind() != Kind::kScalar) return WrongKind(*this, name, "a string");
  if (text().find('\0') != std::string::npos) {
    return Error(fmt::format("{} holds a NUL byte", name));
  }
  return text();
}

Result<std::vector<std::string>> YamlNode::AsStrings(std::string_view name) const {
  if (kind() != Kind::kSequence) return WrongKind(*this, name, "a list of strings");
  std::vector<std::string> strings;
  strings.reserve(items().size());
  for (size_t i = 0; i < items().size(); ++i) {
    HVDRAY_ASSIGN_OR_RETURN(std::string item, items()[i].AsString(fmt::format("{}[{}]", name, i)));
    strings.push_back(std::move(item));
  }
  return strings;
}

std::string YamlNode::TildeHint() const {
  return data_->is_tilde ? "~ alone is null in YAML: write \"~\" for the home directory" : "";
}

Status YamlNode::Error(std::string_view what, std::string hint) const {
  return {ErrorCode::kSpecInvalid, fmt::format("{}: {}", Where(), what), std::move(hint)};
}

YamlNode YamlNode::Scalar(std::string text, bool is_quoted, const YamlNode& at) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kScalar;
  data->is_quoted = is_quoted;
  data->place = at.data_->place;
  data->file = at.data_->file;
  data->text = std::move(text);
  return YamlNode(std::move(data));
}

YamlNode YamlNode::Sequence(std::vector<YamlNode> items, const YamlNode& at) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kSequence;
  data->place = at.data_->place;
  data->file = at.data_->file;
  data->items = std::move(items);
  return YamlNode(std::move(data));
}

YamlNode YamlNode::Map(std::vector<Entry> entries, const YamlNode& at) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kMap;
  data->place = at.data_->place;
  data->file = at.data_->file;
  data->entries = std::move(entries);
  return YamlNode(std::move(data));
}

Result<YamlNode> ParseYaml(std::string_view text, std::string file_name,
                           std::vector<std::string>* warnings) {
  const auto file = std::make_shared<const std::string>(std::move(file_name));
  HVDRAY_ASSIGN_OR_RETURN(const std::string clean, CleanText(text, *file));
  try {
    std::istringstream stream(clean);
    YAML::Parser parser(stream);
    TreeBuilder builder(clean, file, warnings);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.Root();
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const YAML::Exception& error) {
    const Place place = error.mark.is_null() ? Place{} : ToPlace(error.mark);
    return Refused(*file, place, error.msg, SyntaxHint(clean, place, error.msg));
  } catch (const std::exception& error) {
    return Refused(*file, Place{}, fmt::format("not readable as YAML: {}", error.what()));
  }
}

}  // namespace hvdray
