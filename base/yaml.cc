// SPDX-License-Identifier: Apache-2.0
#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/fd.h"
#include "base/shown_text.h"
#include "base/yaml_data.h"

namespace hvdray {
namespace {

constexpr int kMaxDepth = 64;
/// Of all nodes after aliases are expanded: readers walk the expanded tree.
constexpr size_t kMaxWeight = 250'000;
constexpr size_t kBytesPerWeight = 64;

/// Thrown from event callbacks through the library, caught in ParseYaml.
struct Refusal {
  Status status;
};

struct Place {
  int line = 1;
  int column = 1;
};

Place ToPlace(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

Status Refused(const std::string& file, Place place, std::string_view what, std::string hint = {}) {
  return {ErrorCode::kSpecInvalid,
          fmt::format("{}: {}", YamlPlace(file, place.line, place.column), what), std::move(hint)};
}

/// Builds the checked tree from the library's events; each fault is a Refusal.
class TreeBuilder : public YAML::EventHandler {
 public:
  /// `text`: what is being parsed; must outlive the parse.
  TreeBuilder(std::string_view text, std::shared_ptr<const std::string> file)
      : text_(text), file_(std::move(file)) {}

  /// Null for a file without a document.
  YamlNode Root() {
    if (!root_) root_ = Made(NewData(YamlNode::Kind::kNull, Place{}));
    return YamlNode(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) {
      Refuse(ToPlace(mark), "a second document starts here",
             "one document a file; without a '---' here the indentation above is broken");
    }
    has_document_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place place = ToPlace(mark);
    // The mark of a value that is not there is that of whatever comes next.
    const bool is_value = !frames_.empty() && frames_.back().has_key;
    if (is_value && frames_.back().key_place.line != place.line) place = frames_.back().key_place;
    Accept(NewData(YamlNode::Kind::kNull, place), anchor, place);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Place place = ToPlace(mark);
    CheckTag(tag, place);
    auto data = NewData(YamlNode::Kind::kScalar, place);
    data->text = value;
    data->weight += value.size() / kBytesPerWeight;
    data->is_quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!IsClosed(mark)) Refuse(place, "this quote is never closed");
    Accept(std::move(data), anchor, place);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Place place = ToPlace(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(place, "this alias stands inside the value that it names");
    if (static_cast<int>(frames_.size()) + found->second->height > kMaxDepth) RefuseDepth(place);
    PutShared(found->second, place);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, ToPlace(mark), tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, ToPlace(mark), tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  using DataPtr = std::shared_ptr<YamlNode::Data>;
  using ConstDataPtr = std::shared_ptr<const YamlNode::Data>;

  /// A list or map whose end has not come yet.
  struct Frame {
    DataPtr data;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  ///< The next node is the value of `key`.
    std::string key;
    bool is_merge = false;
    Place key_place;
    std::unordered_map<std::string, std::string> seen;  ///< Key to its place.
    ConstDataPtr merge;
    size_t merge_at = 0;
  };

  [[noreturn]] void Refuse(Place place, std::string_view what, std::string hint = {}) const {
    throw Refusal{Refused(*file_, place, what, std::move(hint))};
  }
  [[noreturn]] void RefuseDepth(Place place) const {
    Refuse(place, fmt::format("nested over {} deep", kMaxDepth));
  }

  DataPtr NewData(YamlNode::Kind kind, Place place) const {
    auto data = std::make_shared<YamlNode::Data>();
    data->kind = kind;
    data->line = place.line;
    data->column = place.column;
    data->file = file_;
    return data;
  }
  static ConstDataPtr Made(DataPtr data) { return data; }

  /// The library takes the end of the file for the end of a quoted scalar.
  bool IsClosed(const YAML::Mark& mark) const {
    std::string_view rest = text_.substr(std::min(text_.size(), static_cast<size_t>(mark.pos)));
    while (rest.starts_with('&') || rest.starts_with('!')) {
      rest.remove_prefix(std::min(rest.find_first_of(" \n\t"), rest.size()));
      rest.remove_prefix(std::min(rest.find_first_not_of(" \n\t"), rest.size()));
    }
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

  void CheckTag(const std::string& tag, Place place) const {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    Refuse(place, fmt::format("the tag {} means nothing here", ShownText(tag)), "remove it");
  }

  void Open(YamlNode::Kind kind, Place place, const std::string& tag, YAML::anchor_t anchor) {
    CheckTag(tag, place);
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
    if (frame.merge) Merge(frame);
    const Place place{frame.data->line, frame.data->column};
    Accept(std::move(frame.data), frame.anchor, place);
  }

  bool IsKeyNext() const {
    return !frames_.empty() && frames_.back().data->kind == YamlNode::Kind::kMap &&
           !frames_.back().has_key;
  }

  void Accept(DataPtr data, YAML::anchor_t anchor, Place place) {
    if (anchor != 0) anchors_[anchor] = data;
    // Children were charged when they came.
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
      Refuse(place, fmt::format("over {} values, aliases expanded", kMaxWeight));
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
    const std::string where = YamlPlace(*file_, place.line, place.column);
    const auto [first, is_new] = frame.seen.emplace(key.text, where);
    if (!is_new) {
      Refuse(place,
             fmt::format("duplicate key {}, first at {}", ShownText(key.text), first->second),
             "remove one of the two");
    }
    frame.data->weight += key.weight;
    frame.has_key = true;
    frame.key = key.text;
    frame.is_merge = key.text == "<<" && !key.is_quoted;
    frame.key_place = place;
  }

  void PutValue(Frame& frame, ConstDataPtr data, Place place) {
    frame.has_key = false;
    if (frame.is_merge) {
      CheckMerge(*data, place);
      frame.merge = std::move(data);
      frame.merge_at = frame.data->entries.size();
      return;
    }
    Grow(*frame.data, *data);
    frame.data->entries.push_back({std::move(frame.key),
                                   YamlPlace(*file_, frame.key_place.line, frame.key_place.column),
                                   YamlNode(std::move(data))});
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

  /// Own keys win; of several merged maps the first one does.
  void Merge(Frame& frame) {
    std::vector<YamlNode> sources{YamlNode(frame.merge)};
    if (frame.merge->kind == YamlNode::Kind::kSequence) sources = frame.merge->items;
    std::vector<YamlNode::Entry> merged;
    for (const YamlNode& source : sources) {
      for (const YamlNode::Entry& entry : source.entries()) {
        if (frame.seen.emplace(entry.key, entry.where).second) merged.push_back(entry);
      }
    }
    Grow(*frame.data, *frame.merge);
    auto& entries = frame.data->entries;
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(frame.merge_at), merged.begin(),
                   merged.end());
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  bool has_document_ = false;
  size_t total_weight_ = 0;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, ConstDataPtr> anchors_;
  ConstDataPtr root_;
};

/// Does white space with a tab in it open the line (from 1)?
bool IsTabIndented(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  const size_t first = text.find_first_not_of(' ');
  return first != std::string_view::npos && text[first] == '\t';
}

std::string SyntaxHint(std::string_view text, Place place, std::string_view what) {
  if (what.find("tab") != std::string_view::npos || IsTabIndented(text, place.line)) {
    return "indent with spaces, not tabs";
  }
  if (what == "illegal map value")
    return "quote a value that holds ': ', and check the indentation";
  if (what.find("not found") != std::string_view::npos) return "check indentation and brackets";
  if (what == "unknown token") return "quote a value that starts with @, ` or %";
  return {};
}

}  // namespace

Result<YamlNode> ParseYaml(std::string_view text, std::string file_name) {
  const auto file = std::make_shared<const std::string>(std::move(file_name));
  HVDRAY_ASSIGN_OR_RETURN(const std::string clean, CleanYamlText(text, *file));
  try {
    std::istringstream stream(clean);
    YAML::Parser parser(stream);
    TreeBuilder builder(clean, file);
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

Result<YamlNode> LoadYaml(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxYamlBytes));
  return ParseYaml(text, path);
}

}  // namespace hvdray
