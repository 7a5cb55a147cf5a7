// SPDX-License-Identifier: Apache-2.0
// Reads the keys of one JSON object into the fields of a struct, each within its range. Internal to
// the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_FIELD_READER_H_
#define HVDRAY_WIRE_FIELD_READER_H_

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "base/shown_text.h"
#include "wire/message_fields.h"

namespace hvdray::wire {

inline constexpr size_t kMaxText = 4096;  ///< One name, address or interface list.

/// The first fault is kept, later reads do nothing: the caller looks once, at the end. Object and
/// status outlive the reader.
class FieldReader {
 public:
  FieldReader(const Json& object, Status& status) : object_(object), status_(status) {
    if (!object.is_object()) Fault("not an object");
  }

  template <typename T>
  void Int(const char* key, T& field, int64_t min, int64_t max) {
    if (!status_.ok()) return;
    Result<int64_t> value = JsonInt(object_, key, static_cast<int64_t>(field), min, max);
    if (value.ok()) {
      field = static_cast<T>(*value);
    } else {
      status_ = value.status();
    }
  }
  template <typename T>
  void Unsigned(const char* key, T& field) {
    static_assert(std::is_unsigned_v<T> && sizeof(T) <= 4);
    Int(key, field, 0, std::numeric_limits<T>::max());
  }
  void Unsigned64(const char* key, uint64_t& field) {
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    if (!found->is_number_unsigned()) return Fault(key);
    field = found->get<uint64_t>();
  }
  void Rank(const char* key, int32_t& field, int32_t min = 0) { Int(key, field, min, kMaxRank); }
  void Worker(const char* key, int32_t& field, int32_t min = 0) {
    Int(key, field, min, kMaxWorker);
  }
  void Bool(const char* key, bool& field) {
    if (!status_.ok()) return;
    Result<bool> value = JsonBool(object_, key, field);
    if (value.ok()) {
      field = *value;
    } else {
      status_ = value.status();
    }
  }
  void Text(const char* key, std::string& field, size_t limit = kMaxText) {
    if (!status_.ok()) return;
    Result<std::string> value = JsonString(object_, key, std::move(field));
    if (!value.ok()) {
      status_ = value.status();
      return;
    }
    field = std::move(value).value();
    if (field.size() > limit) Fault(key);
  }
  /// A text that is only for people, as ShownLine() has it.
  void Shown(const char* key, std::string& field, size_t limit = kMaxText) {
    Text(key, field, limit);
    if (status_.ok()) field = ShownLine(field);
  }
  /// Calls `read` with each element of the array `key`, if there is one.
  template <typename Read>
  void Each(const char* key, const Read& read) {
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    if (!found->is_array()) return Fault(key);
    for (const Json& element : *found) {
      read(element);
      if (!status_.ok()) return;
    }
  }
  /// Calls `read` with a reader of the object `key`, if there is one.
  template <typename Read>
  void Object(const char* key, const Read& read) {
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    FieldReader inner(*found, status_);
    read(inner);
  }
  void Fault(std::string_view what) {
    if (status_.ok()) {
      status_ = {ErrorCode::kProtocolError, fmt::format("JSON key {} is not as allowed", what)};
    }
  }

 private:
  const Json& object_;
  Status& status_;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_FIELD_READER_H_
