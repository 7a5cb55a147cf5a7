// SPDX-License-Identifier: Apache-2.0
// JSON of a struct, described once for both directions: Fields(io, value) names each field; `io` is
// a FieldsOut or FieldsIn. For elastic_record.cc only.
#ifndef HVDRAY_LAUNCHER_DRIVER_RECORD_FIELDS_H_
#define HVDRAY_LAUNCHER_DRIVER_RECORD_FIELDS_H_

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace hvdray::record {

/// Smallest and largest valid value, inclusive.
struct FieldRange {
  int64_t min = 0;
  int64_t max = 0;
};

/// Writes fields into an object, which outlives it.
class FieldsOut {
 public:
  static constexpr bool kIsOut = true;
  explicit FieldsOut(Json& object) : object_(object) {}

  template <typename T>
  void Int(const char* key, const T& value, FieldRange) {
    object_[key] = value;
  }
  template <typename T>
  void MaybeInt(const char* key, const std::optional<T>& value, FieldRange) {
    object_[key] = value ? Json(*value) : Json(nullptr);
  }
  /// The whole range of uint64_t.
  void Word(const char* key, const uint64_t& value) { object_[key] = value; }
  void Flag(const char* key, const bool& value) { object_[key] = value; }
  void Text(const char* key, const std::string& value) { object_[key] = value; }
  /// Nanoseconds.
  void Time(const char* key, const Duration& value, FieldRange range) {
    object_[key] = std::min(std::max(int64_t{value.count()}, range.min), range.max);
  }
  template <typename E>
  void Choice(const char* key, const E& value, std::span<const std::string_view> names) {
    object_[key] = names[static_cast<size_t>(value)];
  }
  Json& At(const char* key) { return object_[key]; }

 private:
  Json& object_;
};

/// Reads fields from an object, which outlives it. Keeps the first fault and skips all fields after
/// it.
class FieldsIn {
 public:
  static constexpr bool kIsOut = false;
  /// `is_lenient`: missing fields keep their values.
  FieldsIn(const Json& object, bool is_lenient) : object_(object), is_lenient_(is_lenient) {
    if (!object.is_object()) fault_ = "no object";
  }

  template <typename T>
  void Int(const char* key, T& value, FieldRange range) {
    if (const Json* found = Find(key)) TakeInt(key, *found, value, range);
  }
  template <typename T>
  void MaybeInt(const char* key, std::optional<T>& value, FieldRange range) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    value.reset();
    if (!found->is_null()) TakeInt(key, *found, value.emplace(), range);
  }
  void Word(const char* key, uint64_t& value) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_number_unsigned()) return Refuse(key, "is no whole number");
    value = found->get<uint64_t>();
  }
  void Flag(const char* key, bool& value) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_boolean()) return Refuse(key, "is not true or false");
    value = found->get<bool>();
  }
  void Text(const char* key, std::string& value) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return Refuse(key, "is no string");
    value = found->get<std::string>();
  }
  void Time(const char* key, Duration& value, FieldRange range) {
    int64_t count = value.count();
    Int(key, count, range);
    value = Duration(count);
  }
  template <typename E>
  void Choice(const char* key, E& value, std::span<const std::string_view> names) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return Refuse(key, "is no string");
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == found->get_ref<const std::string&>()) {
        value = static_cast<E>(i);
        return;
      }
    }
    Refuse(key, "is none of the words that it may be");
  }

  /// nullptr: missing, which is a fault unless the reader is lenient.
  const Json* Find(const char* key) {
    if (!fault_.empty()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (!is_lenient_) Refuse(key, "is missing");
    return nullptr;
  }
  /// Records "key what" as the fault, unless there is one.
  void Refuse(std::string_view key, std::string_view what) {
    if (fault_.empty()) fault_ = fmt::format("{} {}", key, what);
  }
  /// Takes over the fault of a nested object's reader.
  void Adopt(std::string_view key, const FieldsIn& part) {
    if (!part.fault_.empty()) Refuse(key, fmt::format("of which {}", part.fault_));
  }
  const std::string& fault() const { return fault_; }  ///< Empty: no fault.

 private:
  template <typename T>
  void TakeInt(const char* key, const Json& found, T& value, FieldRange range) {
    if (!found.is_number_integer()) return Refuse(key, "is no whole number");
    const bool is_too_large =
        found.is_number_unsigned() && found.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    const int64_t number = is_too_large ? INT64_MAX : found.get<int64_t>();
    if (is_too_large || number < range.min || number > range.max) {
      return Refuse(key, fmt::format("is not within {} to {}", range.min, range.max));
    }
    value = static_cast<T>(number);
  }

  const Json& object_;
  const bool is_lenient_;
  std::string fault_;
};

}  // namespace hvdray::record

#endif  // HVDRAY_LAUNCHER_DRIVER_RECORD_FIELDS_H_
