// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <array>

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

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hvdray
