// SPDX-License-Identifier: Apache-2.0
// A struct as JSON, its fields listed once for both directions. A function template
// `Fields(Io& io, FieldsOf<Io, T> value)` names the fields in the order in which they are written;
// `io` is a FieldWriter or a FieldReader, which have the same members. Pure. Threads: one each.
#ifndef HVDRAY_BASE_JSON_FIELDS_H_
#define HVDRAY_BASE_JSON_FIELDS_H_

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// What Fields() takes: `const T&` with a writer, `T&` with a reader.
template <typename Io, typename T>
using FieldsOf = std::conditional_t<Io::kIsWriter, const T, T>&;

/// Smallest and largest valid number, or number of bytes of a string; inclusive.
struct FieldRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
};

template <typename T>
inline constexpr FieldRange kAnyOf = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
template <>
inline constexpr FieldRange kAnyOf<Duration> = kAnyOf<int64_t>;

/// The list may have any number of elements.
inline constexpr size_t kAnyCount = std::numeric_limits<size_t>::max();

/// Where a field is: the key of an object, the index in a list, or {}: the value itself.
struct FieldKey {
  FieldKey() = default;
  FieldKey(const char* key) : name(key) {}  // implicit: it stands for a literal
  FieldKey(int at) : index(at) {}

  const char* name = nullptr;
  int index = -1;
};

/// Appends a value as compact JSON. It writes whatever the fields hold: ranges and lengths are
/// checked by the reader only. Bytes that are not UTF-8 become U+FFFD.
class FieldWriter {
 public:
  static constexpr bool kIsWriter = true;
  enum class Escape : uint8_t { kControls, kNonAscii };

  /// Begins an object at the end of `out`, which outlives the writer. The object ends with it.
  explicit FieldWriter(std::string& out, Escape escape = Escape::kControls)
      : FieldWriter(out, escape, '{') {}
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;
  ~FieldWriter() {
    if (opener_ != kNone) out_ += opener_ == '{' ? '}' : ']';
  }

  /// Returns `is_there`: optional fields are written where they differ from their defaults.
  static bool Has(FieldKey, bool is_there) { return is_there; }

  template <typename T>
  void Int(FieldKey key, const T& value, FieldRange = {}) {
    static_assert(std::is_enum_v<T> || std::is_signed_v<T> || sizeof(T) < sizeof(int64_t));
    PutInt(key, static_cast<int64_t>(value));
  }
  void Word(FieldKey key, uint64_t value);
  void Flag(FieldKey key, bool value);
  void Number(FieldKey key, double value);
  void Text(FieldKey key, std::string_view value, FieldRange = {});
  void Shown(FieldKey key, std::string_view value, FieldRange = {}) { Text(key, value); }
  void Bytes(FieldKey key, const std::string& value);
  void Time(FieldKey key, Duration value, FieldRange range) {
    PutInt(key, std::min(std::max(int64_t{value.count()}, range.min), range.max));
  }
  template <typename E>
  void Choice(FieldKey key, E value, std::span<const std::string_view> words) {
    HVDRAY_CHECK(static_cast<size_t>(value) < words.size());
    Text(key, words[static_cast<size_t>(value)]);
  }

  template <typename T, typename Fields>
  void Object(FieldKey key, const T& value, const Fields& fields) {
    Begin(key);
    FieldWriter part(out_, escape_, '{');
    fields(part, value);
  }
  template <typename T, typename Fields>
  void List(FieldKey key, const std::vector<T>& values, size_t /*max*/, const Fields& fields) {
    Begin(key);
    FieldWriter list(out_, escape_, '[');
    for (const T& value : values) {
      list.Begin(0);
      FieldWriter item(out_, escape_, kNone);
      fields(item, value);
    }
  }
  template <typename Map, typename Fields>
  void Table(FieldKey key, const Map& values, const Fields& fields) {
    Begin(key);
    FieldWriter table(out_, escape_, '{');
    for (const auto& [name, value] : values) {
      table.Begin(name.c_str());
      FieldWriter item(out_, escape_, kNone);
      fields(item, value);
    }
  }
  template <typename T, typename Fields>
  void Maybe(FieldKey key, const std::optional<T>& value, const Fields& fields) {
    Begin(key);
    FieldWriter part(out_, escape_, kNone);
    if (value) {
      fields(part, *value);
    } else {
      out_ += "null";
    }
  }

  void Exactly(int /*count*/) {}
  void Require(FieldKey, bool /*is_valid*/, std::string_view /*what*/) {}
  void Document(FieldKey key, const Json& json);
  /// `json`: the text of one document.
  void Raw(FieldKey key, std::string_view json) {
    Begin(key);
    out_ += json;
  }

 private:
  static constexpr char kNone = '\0';
  FieldWriter(std::string& out, Escape escape, char opener) : out_(out), escape_(escape) {
    if (opener != kNone) Open(opener);
  }
  void Open(char opener) {
    opener_ = opener;
    out_ += opener;
  }
  void Begin(FieldKey key);
  void PutInt(FieldKey key, int64_t value);
  void PutText(std::string_view text);
  void Append(const Json& json);

  std::string& out_;
  const Escape escape_;
  char opener_ = kNone;  // of an object or list; kNone: a plain value, or no field is written yet
  bool is_empty_ = true;
};

/// The object that fields(io) writes.
template <typename Fields>
std::string WriteFields(const Fields& fields, FieldWriter::Escape escape = {}) {
  std::string json;
  {
    FieldWriter io(json, escape);
    fields(io);
  }
  return json;
}

/// Takes the fields out of a JSON value. Unknown keys are ignored. The first fault is kept with its
/// place ("hosts[2].port must be a whole number"), and everything after it is skipped: callers look
/// once, at the end. Fields that were not read keep their values.
class FieldReader {
 public:
  static constexpr bool kIsWriter = false;
  enum class Missing : uint8_t { kKeepsDefault, kIsFault };

  /// `json` must be an object. It and `status`, which gets the fault (kProtocolError), outlive the
  /// reader. `missing`: what a missing key is, in this object and in all that it holds. A missing
  /// element of a list is always a fault.
  FieldReader(const Json& json, Missing missing, Status& status);
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  /// Whether a field is there, whatever `is_there` says.
  bool Has(FieldKey key, bool is_there = false) const;

  /// A whole number or an enum.
  template <typename T>
  void Int(FieldKey key, T& value, FieldRange range) {
    static_assert(std::is_enum_v<T> || std::is_signed_v<T> || sizeof(T) < sizeof(int64_t));
    if (const std::optional<int64_t> number = TakeInt(key, range)) value = static_cast<T>(*number);
  }
  /// The whole range of uint64_t.
  void Word(FieldKey key, uint64_t& value);
  void Flag(FieldKey key, bool& value);
  void Number(FieldKey key, double& value);
  void Text(FieldKey key, std::string& value, FieldRange length = {});
  /// A text that is only for people: ShownLine() of what came.
  void Shown(FieldKey key, std::string& value, FieldRange length = {});
  /// Any bytes: a string, or {"base64": "..."} where they are not UTF-8. At most 16 MiB.
  void Bytes(FieldKey key, std::string& value);
  /// Nanoseconds. A writer clamps them into `range`.
  void Time(FieldKey key, Duration& value, FieldRange range) {
    if (const std::optional<int64_t> count = TakeInt(key, range)) value = Duration(*count);
  }
  /// A word for each value of the enum, from 0.
  template <typename E>
  void Choice(FieldKey key, E& value, std::span<const std::string_view> words) {
    if (const std::optional<size_t> index = TakeWord(key, words)) value = static_cast<E>(*index);
  }

  /// An object: calls fields(io, value).
  template <typename T, typename Fields>
  void Object(FieldKey key, T& value, const Fields& fields) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    FieldReader part(*found, *this, key);
    if (found->is_object()) return fields(part, value);
    part.Refuse({}, "must be an object");
  }
  /// A list of at most `max` elements: calls fields(io, element) for each, which names fields by
  /// key, by index (an element that is a list) or by {} (one that is a plain value).
  template <typename T, typename Fields>
  void List(FieldKey key, std::vector<T>& values, size_t max, const Fields& fields) {
    const Json* found = FindList(key, max);
    if (found == nullptr) return;
    values.clear();
    const FieldReader list(*found, *this, key);
    for (const Json& element : *found) {
      FieldReader item(element, list, static_cast<int>(values.size()));
      fields(item, values.emplace_back());
      if (!ok()) return;
    }
  }
  /// An object whose keys are names: calls fields(io, map[name]) for each.
  template <typename Map, typename Fields>
  void Table(FieldKey key, Map& values, const Fields& fields) {
    const Json* found = FindTable(key);
    if (found == nullptr) return;
    const FieldReader table(*found, *this, key);
    for (const auto& [name, value] : found->items()) {
      FieldReader item(value, table, name.c_str());
      fields(item, values[name]);
      if (!ok()) return;
    }
  }
  /// Null, or a value: calls fields(io, *value) as List() does.
  template <typename T, typename Fields>
  void Maybe(FieldKey key, std::optional<T>& value, const Fields& fields) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    value.reset();
    if (found->is_null()) return;
    FieldReader part(*found, *this, key);
    fields(part, value.emplace());
  }

  /// This value must be a list of exactly `count` elements.
  void Exactly(int count);
  /// A rule that no range can say. `what`: as in Refuse().
  void Require(FieldKey key, bool is_valid, std::string_view what) {
    if (!is_valid) Refuse(key, what);
  }
  /// Records "<place> <what>" as the fault, unless there is one. `what`: "must be …".
  void Refuse(FieldKey key, std::string_view what);
  /// From now on, missing keys of this object alone keep their defaults.
  void KeepDefaults() { missing_ = Missing::kKeepsDefault; }

  bool ok() const { return status_.ok(); }

 private:
  FieldReader(const Json& json, const FieldReader& parent, FieldKey key)
      : json_(json),
        status_(parent.status_),
        parent_(&parent),
        key_(key),
        missing_(parent.missing_of_parts_),
        missing_of_parts_(parent.missing_of_parts_) {}
  const Json* Find(FieldKey key);
  const Json* FindString(FieldKey key);
  const Json* FindList(FieldKey key, size_t max);
  const Json* FindTable(FieldKey key);
  std::optional<int64_t> TakeInt(FieldKey key, FieldRange range);
  std::optional<size_t> TakeWord(FieldKey key, std::span<const std::string_view> words);
  std::string PlaceOf(FieldKey key) const;

  const Json& json_;
  Status& status_;
  const FieldReader* const parent_ = nullptr;  // nullptr: this is the root
  const FieldKey key_;                         // in the parent
  Missing missing_;
  const Missing missing_of_parts_;
};

/// Calls fields(io) with a reader of `json`. Errors: kProtocolError, saying where and what.
template <typename Fields>
Status ReadFields(const Json& json, FieldReader::Missing missing, const Fields& fields) {
  Status status;
  FieldReader io(json, missing, status);
  if (status.ok()) fields(io);
  return status;
}

}  // namespace hvdray

#endif  // HVDRAY_BASE_JSON_FIELDS_H_
