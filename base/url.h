// SPDX-License-Identifier: Apache-2.0
// Where an HTTP request goes: the URL, and the proxy that the environment names. Pure.
#ifndef HVDRAY_BASE_URL_H_
#define HVDRAY_BASE_URL_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/environ.h"
#include "base/result.h"

namespace hvdray {

/// HOST, HOST:PORT, [IPV6] or [IPV6]:PORT.
struct UrlPlace {
  std::string host;  ///< IPv6 without brackets.
  std::string port;  ///< Not checked; empty: not given.
};

/// nullopt: another form.
std::optional<UrlPlace> ParseUrlPlace(std::string_view text);

/// An IPv6 address in brackets; any other host as it is.
std::string Bracketed(const std::string& host);

/// An http or https URL.
struct Url {
  bool is_tls = false;
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = 0;
  std::string target;  ///< What the request asks for: "/path?query".

  /// "HOST", or "HOST:PORT" if the port is not the scheme's.
  std::string Place() const;
};

/// nullopt: not an http or https URL, or one with a user or password.
std::optional<Url> ParseUrl(std::string_view text);

/// A proxy that speaks plain HTTP. No message shows the password.
struct HttpProxy {
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = 0;
  std::string user, password;  ///< Empty: not sent.
};

/// The proxy that the first of `variables` with a value names, unless no_proxy or NO_PROXY names
/// the host, a domain of it, or "*". nullopt: none, or the host is this machine. Errors:
/// kSpecInvalid; the message does not show the password.
Result<std::optional<HttpProxy>> FindHttpProxy(const std::string& host, uint16_t port,
                                               std::initializer_list<const char*> variables,
                                               const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_BASE_URL_H_
