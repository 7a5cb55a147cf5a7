// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_address.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/json.h"
#include "base/tcp_address.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kForm = "http://HOST:8265, the dashboard's address in a browser";

Status Wrong(std::string_view text, std::string_view why, std::string hint) {
  return {ErrorCode::kSpecInvalid, fmt::format("Ray address '{}': {}", ShownText(text), why),
          std::move(hint)};
}

/// The error for anything but an http URL: GCS's HOST:PORT, auto, a Ray client's address.
Status NotHttp(std::string_view text) {
  const size_t scheme = text.find("://");
  const std::string_view behind = scheme == std::string_view::npos ? text : text.substr(scheme + 3);
  const std::optional<UrlPlace> place = ParseUrlPlace(behind.substr(0, behind.find('/')));
  const std::string hint =
      place && behind != "auto" && behind != "local"
          ? fmt::format("write http://{}:{}", Bracketed(place->host), kRayDashboardPort)
          : fmt::format("write {}", kForm);
  if (scheme != std::string_view::npos) {
    return Wrong(text,
                 text.starts_with("ray://") ? "this is for Ray's Python client; hvdray "
                                              "uses the dashboard"
                                            : "neither http:// nor https://",
                 hint);
  }
  if (place && place->port == "8265") return Wrong(text, "http:// is missing", hint);
  return Wrong(text, "this is a GCS address; hvdray uses the dashboard", hint);
}

/// The host of an address in GCS's form. nullopt: another form.
std::optional<std::string> GcsHost(std::string_view text) {
  if (text == "auto" || text == "local") return "127.0.0.1";
  if (text.find("://") != std::string_view::npos) return std::nullopt;
  const std::optional<UrlPlace> place = ParseUrlPlace(text);
  if (!place || !ParsePort(place->port)) return std::nullopt;
  return place->host;
}

}  // namespace

std::string RayAddress::Url() const {
  const hvdray::Url url{.is_tls = is_tls, .host = host, .port = port};
  return fmt::format("{}://{}{}", is_tls ? "https" : "http", url.Place(), prefix);
}

std::string RayAddress::Shown() const { return through.empty() ? Url() : Url() + " of " + through; }

Result<RayAddress> ParseRayAddress(std::string_view text) {
  text = Trimmed(text);
  RayAddress address;
  std::string_view rest = text;
  if (text.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (text.starts_with("https://")) {
    rest.remove_prefix(8);
    address.is_tls = true;
  } else {
    return NotHttp(text);
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (rest.substr(0, slash).find('@') != std::string_view::npos) {
    // The message omits the address: the text before the @ may be a password.
    return Status(ErrorCode::kSpecInvalid, "Ray address: must not contain a user or password",
                  "pass a proxy's credentials by --ray-headers or RAY_JOB_HEADERS");
  }
  const std::optional<UrlPlace> place = ParseUrlPlace(rest.substr(0, slash));
  if (!place) return Wrong(text, "no host and port", fmt::format("write {}", kForm));
  address.host = place->host;
  address.port = address.is_tls ? 443 : 80;
  if (!place->port.empty()) {
    const std::optional<uint16_t> port = ParsePort(place->port);
    if (!port) return Wrong(text, "the port is not within 1 to 65535", "");
    address.port = *port;
  }
  address.prefix = rest.substr(slash);
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  const bool is_plain = std::ranges::none_of(address.prefix, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '?' || c == '#';
  });
  if (!is_plain) {
    return Wrong(text, "invalid path", "write the dashboard's address without ? and #");
  }
  return address;
}

Result<RayAddress> ResolveRayAddress(std::string_view given, const std::string& origin,
                                     const Environment& environment) {
  const auto parsed = [](std::string_view text, const std::string& from) -> Result<RayAddress> {
    Result<RayAddress> address = ParseRayAddress(text);
    if (!address.ok()) return std::move(address).status().WithContext(from);
    address->origin = from;
    return address;
  };
  if (!given.empty()) return parsed(given, origin);
  const std::string api_server = environment.GetOr("RAY_API_SERVER_ADDRESS", "");
  if (!api_server.empty()) return parsed(api_server, "env RAY_API_SERVER_ADDRESS");
  const std::string ray = environment.GetOr("RAY_ADDRESS", "");
  if (const std::optional<std::string> host = GcsHost(Trimmed(ray))) {
    RayAddress address;
    address.host = *host;
    address.origin = "env RAY_ADDRESS";
    address.note = fmt::format(
        "RAY_ADDRESS={} is a GCS address: asking the dashboard at {} (--ray-address overrides it)",
        ShownText(Trimmed(ray)), address.Shown());
    return address;
  }
  if (!ray.empty()) return parsed(ray, "env RAY_ADDRESS");
  RayAddress address;
  address.host = "127.0.0.1";
  address.origin = "default";
  return address;
}

Result<std::optional<HttpProxy>> FindRayProxy(const RayAddress& address,
                                              const Environment& environment) {
  if (!address.is_tls) return std::optional<HttpProxy>();
  return FindHttpProxy(address.host, address.port, {"https_proxy", "HTTPS_PROXY"}, environment);
}

HttpTrust ParseRayVerify(std::string_view text) {
  if (text.empty() || text == "true" || text == "True" || text == "1") return {};
  if (text == "false" || text == "False" || text == "0") return {.is_checked = false};
  return {.is_checked = true, .path = std::string(text)};
}

Result<HttpHeaders> ParseRayHeaders(std::string_view text) {
  const auto wrong = [](std::string_view why) {
    return Status(ErrorCode::kSpecInvalid, std::string(why),
                  "expected a JSON object of strings, such as '{\"X-Team\": \"vision\"}'");
  };
  HttpHeaders headers;
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return wrong(json.status().message());
  if (!json->is_object()) return wrong("not a JSON object");
  for (const auto& [key, value] : json->items()) {
    if (!value.is_string()) return wrong(fmt::format("{} must be a string", ShownText(key)));
    const bool is_token = !key.empty() && std::ranges::all_of(key, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    });
    if (!is_token) return wrong(fmt::format("'{}' is not a valid header name", ShownText(key)));
    std::string lower = key;
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    if (lower == "content-length" || lower == "transfer-encoding" || lower == "connection") {
      return wrong(fmt::format("{} is set by hvdray itself", ShownText(key)));
    }
    const auto bytes = value.get<std::string>();
    const bool is_line = std::ranges::none_of(bytes, [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
    });
    if (!is_line) return wrong(fmt::format("{} must not contain control bytes", ShownText(key)));
    headers.emplace_back(key, bytes);
  }
  return headers;
}

Result<HttpHeaders> ResolveRayHeaders(std::string_view given, const Environment& environment) {
  const std::string inherited = environment.GetOr("RAY_JOB_HEADERS", "");
  const std::string_view text = given.empty() ? std::string_view(inherited) : given;
  if (text.empty()) return HttpHeaders();
  Result<HttpHeaders> headers = ParseRayHeaders(text);
  if (headers.ok()) return headers;
  return std::move(headers).status().WithContext(given.empty() ? "RAY_JOB_HEADERS"
                                                               : "--ray-headers");
}

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
  path = AtHome(path, home);
  if (path.empty() || (!is_named && ::access(path.c_str(), F_OK) != 0)) return RayToken{};
  Result<std::string> read = ReadFile(path, kMaxTokenBytes + 64);
  if (!read.ok()) {
    return std::move(read).status().WithContext(is_named ? "RAY_AUTH_TOKEN_PATH" : "Ray's token");
  }
  return Checked(std::move(read).value(), path);
}

}  // namespace hvdray
