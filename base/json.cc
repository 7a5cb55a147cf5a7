// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/terminal_control.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr int kMaxDepth = 64;
// Ordered objects search their keys one by one: a megabyte of keys in one object would block the
// loop for seconds.
constexpr size_t kMaxKeys = 4096;

// Watches a document while it is parsed. Once it has refused one, it drops the rest.
class ParseLimits {
 public:
  bool Allow(int depth, Json::parse_event_t event) {
    if (fault_ != nullptr) return false;
    if (depth > kMaxDepth) return Refuse("nested more than 64 deep");
    const auto level = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start) keys_[level + 1] = 0;
    if (event == Json::parse_event_t::key && ++keys_[level] > kMaxKeys) {
      return Refuse("with more than 4096 keys in one object");
    }
    return true;
  }
  const char* fault() const { return fault_; }

 private:
  bool Refuse(const char* fault) {
    fault_ = fault;
    return false;
  }

  const char* fault_ = nullptr;
  std::array<size_t, kMaxDepth + 2> keys_{};  // of the open object at each depth
};

/// Of two or three bytes.
uint32_t ToCodePoint(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  return (byte(0) & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
}

}  // namespace

Result<Json> ParseJson(ByteView text, size_t limit_bytes) {
  if (text.size() > limit_bytes) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("JSON of {} bytes, at most {} allowed", text.size(), limit_bytes));
  }
  ParseLimits limits;
  const auto allow = [&limits](int depth, Json::parse_event_t event, Json&) {
    return limits.Allow(depth, event);
  };
  try {
    Json value = Json::parse(text.begin(), text.end(), allow);
    if (limits.fault() == nullptr) return value;
    return Status(ErrorCode::kProtocolError, fmt::format("JSON {}", limits.fault()));
  } catch (const Json::parse_error& error) {
    return Status(ErrorCode::kProtocolError, fmt::format("invalid JSON at byte {}", error.byte));
  } catch (const Json::out_of_range&) {
    // Its own words would repeat the number, however long.
    return Status(ErrorCode::kProtocolError, "JSON with a number out of range");
  } catch (const std::exception& error) {
    return Status(ErrorCode::kProtocolError, fmt::format("JSON: {}", error.what()));
  }
}

// Escapes what a terminal would obey, or reorder text for: people look at JSON, too.
std::string DumpJson(const Json& value, int indent) {
  std::string text = value.dump(indent, ' ', false, Json::error_handler_t::replace);
  // Outside of strings there is ASCII only, and all such characters begin with one of three bytes.
  constexpr std::string_view kLeads = "\xC2\xD8\xE2";
  size_t at = text.find_first_of(kLeads);
  if (at == std::string::npos) return text;
  std::string safe;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find_first_of(kLeads, at + 1)) {
    const std::string_view rest = std::string_view(text).substr(at);
    const std::string_view character = rest.substr(0, Utf8Length(rest));
    if (!IsTerminalControl(character)) continue;
    safe.append(text, done, at - done);
    safe += fmt::format("\\u{:04x}", ToCodePoint(character));
    done = at + character.size();
  }
  return safe.append(text, done);
}

}  // namespace hvdray
