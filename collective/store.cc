// SPDX-License-Identifier: Apache-2.0
#include "collective/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace hvdray {
namespace {

// As Horovod's own client; hvdray's rendezvous holds the request instead, so it is rarely reached.
constexpr std::chrono::milliseconds kPollPeriod(10);
constexpr std::chrono::seconds kLongestRequest(30);
// The rendezvous may hold a request for a key that is not there, a second unless told otherwise.
constexpr std::chrono::seconds kHeld(5);

}  // namespace

Store::Store(const std::string& host, uint16_t port, std::string scope, Duration timeout,
             std::function<Status()> check)
    : client_(host, port, std::min<Duration>(timeout + kHeld, kLongestRequest)),
      scope_(std::move(scope)),
      check_(std::move(check)) {}

std::string Store::PathOf(const std::string& key) const {
  return fmt::format("/{}/{}", scope_, key);
}

Status Store::Set(const std::string& key, const std::string& value) {
  HVDRAY_ASSIGN_OR_RETURN(const HttpReply reply, client_.Put(PathOf(key), value));
  if (reply.status == 200) return {};
  return {ErrorCode::kKvRejected, fmt::format("PUT {}: status {}", PathOf(key), reply.status)};
}

Result<std::string> Store::Get(const std::string& key, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(HttpReply reply, client_.Get(PathOf(key)));
    if (reply.status == 200) return std::move(reply.body);
    if (reply.status != 404) {
      return Status(ErrorCode::kKvRejected,
                    fmt::format("GET {}: status {}", PathOf(key), reply.status));
    }
    if (check_) HVDRAY_RETURN_IF_ERROR(check_());
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(ErrorCode::kDeadlineExceeded,
                    fmt::format("no rank has published {} within {:.0f} s", PathOf(key),
                                std::chrono::duration<double>(timeout).count()));
    }
    std::this_thread::sleep_for(kPollPeriod);
  }
}

Status Store::Delete(const std::string& key) {
  HVDRAY_ASSIGN_OR_RETURN(const HttpReply reply, client_.Delete(PathOf(key)));
  if (reply.status == 200) return {};
  return {ErrorCode::kKvRejected, fmt::format("DELETE {}: status {}", PathOf(key), reply.status)};
}

}  // namespace hvdray
