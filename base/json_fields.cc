// SPDX-License-Identifier: Apache-2.0
#include "base/json_fields.h"

#include <fmt/format.h>

#include <utility>

#include "base/base64.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr const char* kBase64 = "base64";

bool IsPlain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

}  // namespace

void FieldWriter::Begin(FieldKey key) {
  if (key.name == nullptr && key.index < 0) return;
  if (opener_ == kNone) Open(key.name != nullptr ? '{' : '[');
  if (!is_empty_) out_ += ',';
  is_empty_ = false;
  if (key.name == nullptr) return;
  PutText(key.name);
  out_ += ':';
}

void FieldWriter::PutText(std::string_view text) {
  if (!std::all_of(text.begin(), text.end(), IsPlain)) {
    return Append(Json(text));
  }
  out_ += '"';
  out_ += text;
  out_ += '"';
}

void FieldWriter::Append(const Json& json) {
  out_ += json.dump(-1, ' ', escape_ == Escape::kNonAscii, Json::error_handler_t::replace);
}

void FieldWriter::Document(FieldKey key, const Json& json) {
  Begin(key);
  Append(json);
}

void FieldWriter::PutInt(FieldKey key, int64_t value) {
  Begin(key);
  const fmt::format_int digits(value);
  out_.append(digits.data(), digits.size());
}

void FieldWriter::Word(FieldKey key, uint64_t value) {
  Begin(key);
  const fmt::format_int digits(value);
  out_.append(digits.data(), digits.size());
}

void FieldWriter::Flag(FieldKey key, bool value) {
  Begin(key);
  out_ += value ? "true" : "false";
}

void FieldWriter::Number(FieldKey key, double value) { Document(key, Json(value)); }

void FieldWriter::Text(FieldKey key, std::string_view value, FieldRange /*length*/) {
  Begin(key);
  PutText(value);
}

void FieldWriter::Bytes(FieldKey key, const std::string& value) {
  if (IsUtf8(value)) return Text(key, value);
  Object(key, value,
         [](FieldWriter& io, const std::string& bytes) { io.Text(kBase64, EncodeBase64(bytes)); });
}

FieldReader::FieldReader(const Json& json, Missing missing, Status& status)
    : json_(json), status_(status), missing_(missing), missing_of_parts_(missing) {
  if (!json.is_object()) Refuse({}, "must be an object");
}

bool FieldReader::Has(FieldKey key, bool /*is_there*/) const {
  if (key.name != nullptr) return json_.is_object() && json_.contains(key.name);
  return json_.is_array() && static_cast<size_t>(key.index) < json_.size();
}

const Json* FieldReader::Find(FieldKey key) {
  if (!ok()) return nullptr;
  if (key.name == nullptr && key.index < 0) return &json_;
  if (key.name == nullptr) {
    if (!json_.is_array()) {
      Refuse({}, "must be a list");
    } else if (static_cast<size_t>(key.index) >= json_.size()) {
      Refuse(key, "is missing");
    } else {
      return &json_[static_cast<size_t>(key.index)];
    }
    return nullptr;
  }
  if (!json_.is_object()) {
    Refuse({}, "must be an object");
    return nullptr;
  }
  const auto found = json_.find(key.name);
  if (found != json_.end()) return &*found;
  if (missing_ == Missing::kIsFault) Refuse(key, "is missing");
  return nullptr;
}

const Json* FieldReader::FindString(FieldKey key) {
  const Json* found = Find(key);
  if (found == nullptr || found->is_string()) return found;
  Refuse(key, "must be a string");
  return nullptr;
}

const Json* FieldReader::FindList(FieldKey key, size_t max) {
  const Json* found = Find(key);
  if (found == nullptr) return nullptr;
  if (found->is_array() && found->size() <= max) return found;
  Refuse(key,
         found->is_array() ? fmt::format("must have at most {} elements", max) : "must be a list");
  return nullptr;
}

const Json* FieldReader::FindTable(FieldKey key) {
  const Json* found = Find(key);
  if (found == nullptr || found->is_object()) return found;
  Refuse(key, "must be an object");
  return nullptr;
}

std::optional<int64_t> FieldReader::TakeInt(FieldKey key, FieldRange range) {
  const Json* found = Find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number_integer()) {
    Refuse(key, "must be a whole number");
    return std::nullopt;
  }
  const bool is_huge =
      found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = is_huge ? INT64_MAX : found->get<int64_t>();
  if (!is_huge && number >= range.min && number <= range.max) return number;
  Refuse(key, fmt::format("must be within {} to {}", range.min, range.max));
  return std::nullopt;
}

std::optional<size_t> FieldReader::TakeWord(FieldKey key, std::span<const std::string_view> words) {
  const Json* found = FindString(key);
  if (found == nullptr) return std::nullopt;
  const auto at = std::find(words.begin(), words.end(), found->get_ref<const std::string&>());
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  Refuse(key, fmt::format("must be one of {}", fmt::join(words, ", ")));
  return std::nullopt;
}

void FieldReader::Word(FieldKey key, uint64_t& value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (!found->is_number_unsigned()) return Refuse(key, "must be a whole number from 0");
  value = found->get<uint64_t>();
}

void FieldReader::Flag(FieldKey key, bool& value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return Refuse(key, "must be true or false");
  value = found->get<bool>();
}

void FieldReader::Number(FieldKey key, double& value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (!found->is_number()) return Refuse(key, "must be a number");
  value = found->get<double>();
}

void FieldReader::Text(FieldKey key, std::string& value, FieldRange length) {
  if (const Json* found = FindString(key)) value = found->get<std::string>();
  if (std::cmp_less(value.size(), length.min)) Refuse(key, "must be a string that is not empty");
  if (std::cmp_greater(value.size(), length.max))
    Refuse(key, fmt::format("must have at most {} bytes", length.max));
}

void FieldReader::Shown(FieldKey key, std::string& value, FieldRange length) {
  Text(key, value, length);
  if (ok()) value = ShownLine(value);
}

void FieldReader::Bytes(FieldKey key, std::string& value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (found->is_string()) {
    value = found->get<std::string>();
    return;
  }
  const auto coded = found->is_object() ? found->find(kBase64) : found->end();
  if (coded == found->end() || !coded->is_string()) return Refuse(key, "must be a string");
  Result<std::string> bytes = DecodeBase64(coded->get_ref<const std::string&>(), kMaxBytes);
  if (!bytes.ok()) return Refuse(key, "must be base64 of at most 16 MiB");
  value = std::move(bytes).value();
}

void FieldReader::Exactly(int count) {
  if (!ok() || (json_.is_array() && json_.size() == static_cast<size_t>(count))) return;
  Refuse({}, fmt::format("must be a list of {}", count));
}

void FieldReader::Refuse(FieldKey key, std::string_view what) {
  if (!ok()) return;
  const std::string place = PlaceOf(key);
  status_ = {ErrorCode::kProtocolError,
             place.empty() ? std::string(what) : fmt::format("{} {}", place, what)};
}

std::string FieldReader::PlaceOf(FieldKey key) const {
  const std::string outer = parent_ == nullptr ? std::string() : parent_->PlaceOf(key_);
  if (key.name != nullptr) return outer + (outer.empty() ? "" : ".") + ShownText(key.name);
  return key.index < 0 ? outer : fmt::format("{}[{}]", outer, key.index);
}

}  // namespace hvdray
