// SPDX-License-Identifier: Apache-2.0
// Finds the address of a Ray cluster's dashboard, and how to connect, from options and environment.
// Pure, except for FindRayToken().
#ifndef HVDRAY_LAUNCHER_JOB_RAY_ADDRESS_H_
#define HVDRAY_LAUNCHER_JOB_RAY_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environ.h"
#include "base/http_client.h"
#include "base/http_tls.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/url.h"

namespace hvdray {

inline constexpr uint16_t kRayDashboardPort = 8265;

/// The URL of a dashboard, and its origin.
struct RayAddress {
  bool is_tls = false;
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = kRayDashboardPort;
  std::string prefix;       ///< Precedes every path, for a reverse proxy: "" or "/team/ray".
  std::string origin;       ///< "flag --ray-address", "env RAY_ADDRESS", "default".
  std::string note;         ///< An assumption to tell the user, one line; usually empty.
  std::string through;      ///< The host whose loopback `host` is, for a tunnel. Empty: none.
  std::string socket_path;  ///< This end of the tunnel.

  /// "http://127.0.0.1:8265", without a slash at the end. For programs; through a tunnel, of
  /// `through`'s loopback.
  std::string Url() const;
  /// For people: Url(), through a tunnel "http://127.0.0.1:8265 of HEAD".
  std::string Shown() const;
};

/// Parses "http://HOST[:PORT][/PREFIX]", or https. The default port is the scheme's. Errors:
/// kSpecInvalid, with the correct form as hint, for HOST:PORT alone (GCS's form), ray://, auto, a
/// user or password in the address, a query.
Result<RayAddress> ParseRayAddress(std::string_view text);

/// Takes `given` (the value of --ray-address or its variable, with its `origin`) unless empty, then
/// RAY_API_SERVER_ADDRESS, then RAY_ADDRESS, then http://127.0.0.1:8265. A RAY_ADDRESS in GCS's
/// form
/// ("10.0.0.10:6379", as inside a Ray job, or "auto") becomes port 8265 of that host, with a note.
/// Errors: as ParseRayAddress().
Result<RayAddress> ResolveRayAddress(std::string_view given, const std::string& origin,
                                     const Environment& environment);

/// The proxy for an https:// address of another machine: https_proxy, else HTTPS_PROXY, unless
/// no_proxy or NO_PROXY names the host, a domain of it, or "*". nullopt: none. Errors:
/// kSpecInvalid; the message does not show the password.
Result<std::optional<HttpProxy>> FindRayProxy(const RayAddress& address,
                                              const Environment& environment);

/// Parses --ray-verify: "true", "false", or a file or directory with certificates. Empty: true.
HttpTrust ParseRayVerify(std::string_view text);

/// Parses a JSON object of header names and values. Errors: kSpecInvalid with half a sentence,
/// which never shows a value, since it may be a password.
Result<HttpHeaders> ParseRayHeaders(std::string_view json);

/// ParseRayHeaders() of `given` (--ray-headers) unless empty, else of RAY_JOB_HEADERS.
/// Errors: kSpecInvalid.
Result<HttpHeaders> ResolveRayHeaders(std::string_view given, const Environment& environment);

/// A token and where it was found. Never shown: messages only name its origin. Move-only, wiped on
/// destruction.
struct RayToken {
  Secret text;         ///< Empty: none found.
  std::string origin;  ///< "RAY_AUTH_TOKEN", or the file's path; empty: none found.

  bool is_empty() const { return text.view().empty(); }
};

/// Takes RAY_AUTH_TOKEN, else the file of RAY_AUTH_TOKEN_PATH, else ~/.ray/auth_token, and trims
/// white space. Empty when none exists: not every cluster requires a token. Blocks to read a file.
/// Errors: kFileUnreadable for an unreadable file (for RAY_AUTH_TOKEN_PATH also a missing one),
/// kSpecInvalid for contents that are no token (empty, several words, control bytes).
Result<RayToken> FindRayToken(const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_ADDRESS_H_
