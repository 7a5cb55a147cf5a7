// SPDX-License-Identifier: Apache-2.0
#include "base/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/tcp_address.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// Decodes percent-encoding: "%40" becomes "@".
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Parses "http://user:password@host:port"; only the host is required.
std::optional<HttpProxy> ParseProxy(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  constexpr uint16_t kWebPort = 80;
  HttpProxy proxy;
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  if (text.find("://") != std::string_view::npos) return std::nullopt;
  text = text.substr(0, text.find('/'));
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = text.substr(0, at);
    const size_t colon = login.find(':');
    proxy.user = Unescaped(login.substr(0, colon));
    if (colon != std::string_view::npos) proxy.password = Unescaped(login.substr(colon + 1));
    text.remove_prefix(at + 1);
  }
  const std::optional<UrlPlace> place = ParseUrlPlace(text);
  if (!place) return std::nullopt;
  const std::optional<uint16_t> port =
      place->port.empty() ? std::optional(kWebPort) : ParsePort(place->port);
  if (!port) return std::nullopt;
  proxy.host = place->host;
  proxy.port = *port;
  return proxy;
}

/// Whether a list in the form of no_proxy names the host. As curl reads it: blanks separate, too.
bool IsNamed(const std::string& host, uint16_t of_port, const std::string& list) {
  const std::string lower_list = Lower(list), lower_host = Lower(host);
  const std::string port = fmt::format(":{}", of_port);
  for (std::string_view name : BlankSeparated(lower_list, ", \t")) {
    if (name == "*") return true;
    if (name.ends_with(port) && name.find(':') == name.size() - port.size()) {
      name.remove_suffix(port.size());
    }
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    if (name.starts_with('.')) name.remove_prefix(1);
    if (name.empty()) continue;
    if (lower_host == name || lower_host.ends_with(fmt::format(".{}", name))) return true;
  }
  return false;
}

}  // namespace

std::optional<UrlPlace> ParseUrlPlace(std::string_view text) {
  UrlPlace place;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    place.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (place.host.find_first_not_of("0123456789abcdefABCDEF:.") != std::string::npos) {
      return std::nullopt;
    }
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    place.host = text.substr(0, colon);
    text.remove_prefix(colon);
    const bool is_name = std::ranges::all_of(place.host, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '-' || c == '_';
    });
    if (!is_name) return std::nullopt;
  }
  if (place.host.empty()) return std::nullopt;
  if (text.empty()) return place;
  if (!text.starts_with(':')) return std::nullopt;
  place.port = text.substr(1);
  return place;
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::string Url::Place() const {
  const bool is_usual = port == (is_tls ? 443 : 80);
  return is_usual ? Bracketed(host) : fmt::format("{}:{}", Bracketed(host), port);
}

std::optional<Url> ParseUrl(std::string_view text) {
  Url url{.is_tls = text.starts_with("https://")};
  if (!url.is_tls && !text.starts_with("http://")) return std::nullopt;
  text.remove_prefix(url.is_tls ? 8 : 7);
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  const std::optional<UrlPlace> place = ParseUrlPlace(text.substr(0, end));
  if (!place) return std::nullopt;
  const std::optional<uint16_t> port =
      place->port.empty() ? std::optional<uint16_t>(url.is_tls ? 443 : 80) : ParsePort(place->port);
  if (!port) return std::nullopt;
  url.host = place->host;
  url.port = *port;
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  return url;
}

Result<std::optional<HttpProxy>> FindHttpProxy(const std::string& host, uint16_t port,
                                               std::initializer_list<const char*> variables,
                                               const Environment& environment) {
  const auto first = [&environment](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      std::string value = environment.GetOr(name, "");
      if (!value.empty()) return std::pair<const char*, std::string>(name, std::move(value));
    }
    return std::pair<const char*, std::string>();
  };
  const auto [name, text] = first(variables);
  if (text.empty() || host == "localhost" || IsLoopback(host) ||
      IsNamed(host, port, first({"no_proxy", "NO_PROXY"}).second)) {
    return std::optional<HttpProxy>();
  }
  std::optional<HttpProxy> proxy = ParseProxy(text);
  if (proxy) return proxy;
  return Status(ErrorCode::kSpecInvalid,
                fmt::format("{} is not the address of an HTTP proxy", name),
                fmt::format("{}=http://HOST:PORT, or no_proxy={}", name, host));
}

}  // namespace hvdray
