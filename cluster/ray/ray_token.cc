// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_token.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr size_t kMaxTokenBytes = 8192;  // servers refuse longer headers

Result<RayToken> Checked(std::string text, std::string origin) {
  std::string_view view(text);
  const auto begin = view.find_first_not_of(" \t\r\n");
  view = begin == std::string_view::npos
             ? std::string_view()
             : view.substr(begin, view.find_last_not_of(" \t\r\n") - begin + 1);
  const bool is_word = std::ranges::all_of(
      view, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7F; });
  RayToken token{Secret(view), std::move(origin)};
  const bool is_fit = !view.empty() && view.size() <= kMaxTokenBytes && is_word;
  ::explicit_bzero(text.data(), text.size());
  if (!is_fit) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("{}: not a Ray token: expected one word", token.origin),
                  "`ray get-auth-token` on the head prints it");
  }
  return token;
}

}  // namespace

Result<RayToken> FindRayToken(const Environment& environment) {
  std::string text = environment.GetOr("RAY_AUTH_TOKEN", "");
  if (!text.empty()) return Checked(std::move(text), "RAY_AUTH_TOKEN");
  std::string path = environment.GetOr("RAY_AUTH_TOKEN_PATH", "");
  const bool is_named = !path.empty();
  const std::string home = environment.GetOr("HOME", "");
  if (!is_named && !home.empty()) path = home + "/.ray/auth_token";
  if (path.starts_with("~/") && !home.empty()) path = home + path.substr(1);
  if (path.empty() || (!is_named && ::access(path.c_str(), F_OK) != 0)) return RayToken{};
  Result<std::string> read = ReadFile(path, kMaxTokenBytes + 64);
  if (!read.ok()) {
    return std::move(read).status().WithContext(is_named ? "RAY_AUTH_TOKEN_PATH" : "Ray's token");
  }
  return Checked(std::move(read).value(), path);
}

}  // namespace hvdray
