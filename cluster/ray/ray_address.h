// Where a Ray cluster's dashboard is, from whatever names it. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ADDRESS_H_
#define HVDRAY_CLUSTER_RAY_RAY_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environ.h"
#include "base/result.h"
#include "base/web_client.h"

namespace hvdray {

inline constexpr uint16_t kRayDashboardPort = 8265;

struct RayAddress {
  bool is_tls = false;
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = kRayDashboardPort;
  std::string prefix;  ///< What a reverse proxy wants before every path: "" or "/team/ray".
  std::string origin;  ///< "flag --ray-address", "env RAY_ADDRESS", "default".
  std::string note;    ///< What was assumed, for people to be told; mostly empty. One line.

  /// "http://127.0.0.1:8265", without a slash at the end.
  std::string Url() const;
};

/// "http://HOST[:PORT][/PREFIX]" or https; without a port that of the scheme, as everywhere on the
/// web. Errors: kSpecInvalid with what to write instead, for HOST:PORT alone (GCS's form), ray://,
/// auto, a user or password in the address, a query.
Result<RayAddress> ParseRayAddress(std::string_view text);

/// `given` (what --ray-address or its variable said, with its `origin`) unless empty, then
/// RAY_API_SERVER_ADDRESS, then RAY_ADDRESS, then http://127.0.0.1:8265. A RAY_ADDRESS of GCS's
/// form
/// ("10.0.0.10:6379", as inside a Ray job, or "auto") becomes port 8265 of that host, with a note.
Result<RayAddress> ResolveRayAddress(std::string_view given, const std::string& origin,
                                     const Environment& environment);

/// Of an https:// address that is not this machine: https_proxy, else HTTPS_PROXY, unless no_proxy
/// or NO_PROXY names the host, a domain of it, or "*". Errors: kSpecInvalid, without the password.
Result<std::optional<WebProxy>> FindRayProxy(const RayAddress& address,
                                             const Environment& environment);

/// "true", "false", or a file or folder with certificates (--ray-verify). Empty: true.
WebTrust ParseRayVerify(std::string_view text);

/// A JSON object of texts: `given` (--ray-headers) unless empty, else RAY_JOB_HEADERS. Errors:
/// kSpecInvalid; no message shows a value, for some are passwords.
Result<WebHeaders> ResolveRayHeaders(std::string_view given, const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ADDRESS_H_
